"""What the positions decide, for the driver to carry out in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from strandline.errors import OffsetOutOfRange, StrandlineError
from strandline.ids import TopicId, TopicPartition
from strandline.vocabulary.log import AbortedFrom


class Reset(Enum):
    """Why a position has to be found."""

    POLICY = "as offset_reset says"
    EARLIEST = "where the log starts"
    LATEST = "where reading ends"


@dataclass(frozen=True, slots=True)
class Arrived:
    """Wanted records of a partition, from `offset` on. The driver splits and buffers them, without those of
    the aborted transactions."""

    name: TopicPartition
    offset: int
    records: bytes
    aborted: Sequence[AbortedFrom] = ()


@dataclass(frozen=True, slots=True)
class FindPosition:
    """The partition has no valid position: call `found`. `error`: the previous position was out of range."""

    name: TopicPartition
    search: int
    reset: Reset
    error: OffsetOutOfRange | None


@dataclass(frozen=True, slots=True)
class DoubtLeader:
    """The broker does not lead the partition. `error` may name the leader."""

    name: TopicPartition
    error: StrandlineError


@dataclass(frozen=True, slots=True)
class DelayFetch:
    """Fetch the partition again (call `backed_off`) only after a pause."""

    name: TopicPartition
    attempt: int


@dataclass(frozen=True, slots=True)
class Waits:
    """The leader cannot answer a fetch yet, for the `attempt`th time in a row."""

    name: TopicPartition
    attempt: int
    error: StrandlineError


@dataclass(frozen=True, slots=True)
class Refused:
    """The partition cannot be read; the next poll raises this."""

    name: TopicPartition
    error: StrandlineError


@dataclass(frozen=True, slots=True)
class MadeAnew:
    """The topic was deleted, and another one has its name: it is read from its first record."""

    name: TopicPartition
    before: TopicId
    now: TopicId


@dataclass(frozen=True, slots=True)
class Cut:
    """The log has lost the records from `first` to before `end`, the position until now, in an election with
    a loss. The partition goes on at `first`, behind the last record of `epoch`."""

    name: TopicPartition
    first: int
    end: int
    epoch: int


Effect = Arrived | FindPosition | DoubtLeader | DelayFetch | Waits | Refused | MadeAnew | Cut
