"""What a coordinator knows of one transactional id, and the steps that change it.

A value: a step makes the next one, which is held once its record is in the log. So a write that fails
changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from strandline.broker.core.transactions.states import COMMITS, ENDING, IDLE, transition
from strandline.ids import NO_PRODUCER as NO_ID
from strandline.ids import TopicPartition
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import EPOCH_MAX, NO_PRODUCER, TransactionState

_S = TransactionState

RAISING_VERSION = 2
"""The version of transactions in which each end raises the epoch (KIP-890)."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """The state of a transactional id, as its last record has it. Times are milliseconds of the wall clock.

    `producer` is the identity with which markers are written. `last` is the one that the holder had before it
    got its present one, as long as it has not used that: its last request may come again (KIP-360, KIP-890).
    NO_PRODUCER if no request of an earlier identity is answered. `next_id` is the producer id of the holder
    from now on, if the end of this transaction used up the last epoch. `client_version` is the version of
    transactions by which the last decision was made.
    """

    transactional_id: str
    producer: ProducerIdentity
    timeout_ms: int
    state: TransactionState
    updated_ms: int
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = -1
    last: ProducerIdentity = NO_PRODUCER
    next_id: int = NO_ID
    client_version: int = 0

    @property
    def holder(self) -> ProducerIdentity | None:
        """The identity that may act. None if only a new producer may: the last epoch is not for clients, so
        that there is always one that fences them."""
        if self.next_id != NO_ID:
            return ProducerIdentity(self.next_id, 0)
        return self.producer if self.producer.producer_epoch < EPOCH_MAX else None

    @property
    def epochs_used_up(self) -> bool:
        """True if the next producer, or the next epoch, needs a new producer id."""
        return self.producer.producer_epoch >= EPOCH_MAX - 1

    @property
    def commits(self) -> bool:
        return self.state in COMMITS

    @property
    def ending(self) -> bool:
        return self.state in ENDING

    @property
    def idle(self) -> bool:
        return self.state in IDLE

    # --- steps -------------------------------------------------------------------------------

    def initialized(
        self, producer: ProducerIdentity, last: ProducerIdentity, timeout_ms: int, now_ms: int
    ) -> Transaction:
        """A producer takes the id, or the one that has it comes back."""
        return self._step(
            _S.EMPTY, now_ms, producer=producer, last=last, timeout_ms=timeout_ms, client_version=0
        )

    def added(self, partitions: Collection[TopicPartition], now_ms: int) -> Transaction:
        """More partitions; the first ones begin a transaction."""
        return self._step(
            _S.ONGOING,
            now_ms,
            partitions=self.partitions.union(partitions),
            started_ms=self.started_ms if self.state is _S.ONGOING else now_ms,
            last=NO_PRODUCER,
        )

    def prepared(self, *, commit: bool, now_ms: int) -> Transaction:
        """The decision, as older clients have it: their epoch stays (KIP-98)."""
        wanted = _S.PREPARE_COMMIT if commit else _S.PREPARE_ABORT
        return self._step(wanted, now_ms, client_version=0)

    def prepared_raised(
        self, *, commit: bool, now_ms: int, last: ProducerIdentity, next_id: int = NO_ID
    ) -> Transaction:
        """The decision with a raised epoch, which fences the one that wrote the transaction (KIP-890)."""
        return self._step(
            _S.PREPARE_COMMIT if commit else _S.PREPARE_ABORT,
            now_ms,
            producer=self._raised(),
            last=last,
            next_id=next_id,
            client_version=RAISING_VERSION,
        )

    def completed(self, now_ms: int) -> Transaction:
        """All markers are written."""
        return self._step(
            _S.COMPLETE_COMMIT if self.commits else _S.COMPLETE_ABORT,
            now_ms,
            producer=self.producer if self.next_id == NO_ID else ProducerIdentity(self.next_id, 0),
            next_id=NO_ID,
            partitions=frozenset(),
            started_ms=-1,
        )

    def aborted_nothing(self, now_ms: int, next_id: int = NO_ID) -> Transaction:
        """The holder aborts without knowing whether it began, and gets its next epoch (KIP-890). No log has
        anything to mark, so that one record is enough."""
        return self._step(
            _S.COMPLETE_ABORT,
            now_ms,
            producer=self._raised() if next_id == NO_ID else ProducerIdentity(next_id, 0),
            last=self.producer,
            client_version=RAISING_VERSION,
        )

    def _raised(self) -> ProducerIdentity:
        producer_id, epoch = self.producer.producer_id, self.producer.producer_epoch
        assert epoch < EPOCH_MAX, f"{self}: its epoch cannot be raised"
        return ProducerIdentity(producer_id, epoch + 1)

    def _step(self, wanted: TransactionState, now_ms: int, **changes: Any) -> Transaction:
        state = transition(self.transactional_id, self.state, wanted)
        return replace(self, state=state, updated_ms=now_ms, **changes)
