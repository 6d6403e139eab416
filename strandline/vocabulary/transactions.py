"""Values that producers, coordinators of transactions and leaders of partitions exchange (KIP-98, KIP-890).

Times are milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from strandline.errors import StrandlineError
from strandline.ids import BrokerId, TopicPartition
from strandline.vocabulary.asks import Asks
from strandline.vocabulary.groups import OffsetCommit
from strandline.vocabulary.log import ProducerIdentity

EPOCH_MAX: Final = 2**15 - 1
"""Of a producer. Its last one only ends a transaction: the next producer gets another id."""
NO_PRODUCER: Final = ProducerIdentity(-1, -1)
"""Of a client that has no identity yet."""

PartitionResults = Mapping[TopicPartition, StrandlineError | None]


class TransactionState(Enum):
    """States by Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"


# --- producers ask their coordinator ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InitTransactions(Asks[ProducerIdentity]):
    """Fences earlier producers of this id, ends their transaction, and asks for an identity.

    `producer`: the identity that the client has (KIP-360), or NO_PRODUCER.
    """

    transactional_id: str
    timeout_ms: int
    producer: ProducerIdentity = NO_PRODUCER


@dataclass(frozen=True, slots=True)
class AddPartitions(Asks[PartitionResults]):
    """Adds partitions to the transaction, and begins it if there is none.

    `verify_only`: adds nothing, and asks whether they are in it. An answer for each partition; an error for
    all of them refuses the request as a whole.
    """

    transactional_id: str
    producer: ProducerIdentity
    partitions: Sequence[TopicPartition]
    verify_only: bool = False


@dataclass(frozen=True, slots=True)
class EndTransaction(Asks[ProducerIdentity]):
    """Commits or aborts; answered once the decision is in the log. `next_epoch`: the client takes the next
    identity from the answer (transactions v2); without it the answer has the client's own."""

    transactional_id: str
    producer: ProducerIdentity
    commit: bool
    next_epoch: bool = False


@dataclass(frozen=True, slots=True)
class TxnOffsetCommit:
    """Commits offsets of a group in a transaction; asked of the group's coordinator. `add` adds the group to
    the transaction (transactions v2); else it has to be in it already."""

    transactional_id: str
    producer: ProducerIdentity
    commit: OffsetCommit
    add: bool = True


# --- tools --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DescribedTransaction:
    """`started_ms` is -1 while none is open; `partitions` those of the open or ending one."""

    transactional_id: str
    producer: ProducerIdentity
    state: TransactionState
    timeout_ms: int
    started_ms: int = -1
    partitions: Sequence[TopicPartition] = ()


@dataclass(frozen=True, slots=True)
class DescribeTransaction(Asks[DescribedTransaction]):
    transactional_id: str


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: TransactionState
    started_ms: int = -1


@dataclass(frozen=True, slots=True)
class ListTransactions(Asks[Sequence[ListedTransaction]]):
    """All transactional ids of one coordinator."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Asks the leader of this partition which transactions are open in its log."""

    name: TopicPartition


@dataclass(frozen=True, slots=True)
class OpenInLog:
    """A transaction that has records in a log, and no marker. `began_ms` is the leader's time, or that of its
    restart; `coordinator_epoch` that of the producer's last marker, -1 if there is none."""

    producer: ProducerIdentity
    first_offset: int
    began_ms: int
    coordinator_epoch: int = -1


@dataclass(frozen=True, slots=True)
class LogTransactions:
    """The open transactions of one log: `count` of them, of which `opened` has those that began first.

    Readers of committed records wait at `stable_offset`, the last stable offset. After an error the rest is
    unknown.
    """

    name: TopicPartition
    error: StrandlineError | None = None
    stable_offset: int = -1
    high_watermark: int = -1
    count: int = 0
    opened: Sequence[OpenInLog] = ()


@dataclass(frozen=True, slots=True)
class AbortInLog:
    """For administrators: end the transaction that begins at this offset of a log by an abort marker, without
    a coordinator."""

    name: TopicPartition
    first_offset: int


# --- coordinators tell leaders ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Marker:
    """The end of a producer's transaction, for the log of each partition in it.

    `producer` has the epoch with which the marker is written: earlier ones are fenced by it from then on.
    `coordinator_epoch` is the leader epoch of the coordinator's partition: a lower one is refused.
    """

    producer: ProducerIdentity
    commit: bool
    coordinator_epoch: int


class MarkerEntry(NamedTuple):
    """A marker for one partition."""

    name: TopicPartition
    marker: Marker


@dataclass(frozen=True, slots=True)
class MarkerBatch:
    """Markers of one coordinator's broker for the partitions that another broker leads. The answer has for
    each of them, in their order, None once it is committed, or the error."""

    broker_id: BrokerId
    entries: Sequence[MarkerEntry]


# --- leaders ask coordinators -------------------------------------------------------------------

Admitted = PartitionResults | StrandlineError
"""The answer for each partition, or the error for all of them."""


@dataclass(frozen=True, slots=True)
class AdmissionBatch:
    """Questions of one leader's broker: may the producers append to these partitions? Answered in their
    order (KIP-890)."""

    broker_id: BrokerId
    admissions: Sequence[AddPartitions]
