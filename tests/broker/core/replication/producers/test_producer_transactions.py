"""What a log takes of transactional producers: their batches, and the markers of their coordinators."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.broker.core.replication.producer_state import ACCEPT, Duplicate, ProducerState
from strandline.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    StrandlineError,
    TransactionCoordinatorFenced,
)
from strandline.records import BatchHeader, pack
from strandline.records.control import WrittenMarker, encode_marker
from strandline.records.header import TRANSACTIONAL
from strandline.vocabulary.log import NO_MARKER, ProducerIdentity, Transactional
from strandline.vocabulary.transactions import Marker

NOW = 1_000


class Log:
    """A state, and the offset of the next batch."""

    def __init__(self, open_max: int = 10) -> None:
        self.state = ProducerState(producers_max=10, expiry_ms=60_000, open_max=open_max)
        self.end = 0

    def append(
        self,
        sequence: int,
        *,
        epoch: int = 0,
        transactional: bool = True,
        guard: int | None = NO_MARKER,
        asked: bool = True,
    ) -> int | StrandlineError:
        """The batch's offset, or why it is refused; `asked`: whether its coordinator was."""
        packed = pack([(None, b"value", (), NOW)])
        packed = replace(packed, attributes=TRANSACTIONAL if transactional else 0)
        batch = packed.seal(producer_id=5, producer_epoch=epoch, base_sequence=sequence)
        header = BatchHeader.parse(batch)
        right = Transactional(ProducerIdentity(5, epoch), guard) if asked else None
        try:
            verdict = self.state.check(header, NOW, any_first_sequence=True, transaction=right)
        except StrandlineError as error:
            return error
        if isinstance(verdict, Duplicate):
            return verdict.base_offset
        assert verdict is ACCEPT
        self.state.record(header, self.end, NOW)
        self.end += 1
        return self.end - 1

    def mark(self, *, commit: bool = True, epoch: int = 0, coordinator: int = 1) -> int | StrandlineError:
        try:
            self.state.check_marker(Marker(ProducerIdentity(5, epoch), commit, coordinator))
        except StrandlineError as error:
            return error
        written = WrittenMarker(commit, coordinator)
        batch = encode_marker(written, producer_id=5, producer_epoch=epoch, timestamp_ms=NOW)
        self.state.record_marker(BatchHeader.parse(batch), written, self.end, NOW)
        self.end += 1
        return self.end - 1


def test_a_transaction_begins_only_as_its_coordinator_knows() -> None:
    log = Log()
    assert isinstance(log.append(0, asked=False), InvalidTransactionState)
    assert log.append(0) == 0
    assert log.append(1, asked=False) == 1
    assert dict(log.state.transactions)[5].first_offset == 0


def test_a_right_is_of_one_identity() -> None:
    log = Log()
    packed = replace(pack([(None, b"value", (), NOW)]), attributes=TRANSACTIONAL)
    header = BatchHeader.parse(packed.seal(producer_id=5, producer_epoch=1, base_sequence=0))
    with pytest.raises(InvalidTransactionState, match="no transaction here"):
        log.state.check(header, NOW, transaction=Transactional(ProducerIdentity(5, 0), NO_MARKER))


def test_a_batch_that_comes_after_its_transaction_has_ended_begins_none() -> None:
    """The coordinator was asked, its marker came, then the batch: it would never be ended (KIP-890)."""
    log = Log()
    guard = log.state.guard(5)
    log.mark(commit=False)
    assert isinstance(log.append(0, guard=guard), InvalidTransactionState)
    assert log.append(0, guard=log.state.guard(5)) == 1


def test_the_next_transaction_continues_the_sequences_of_the_epoch() -> None:
    log = Log()
    assert (log.append(0), log.mark()) == (0, 1)
    assert isinstance(log.append(1, asked=False), InvalidTransactionState)
    assert log.append(1, guard=1) == 2


def test_a_transaction_with_an_epoch_of_its_own_begins_at_zero() -> None:
    """KIP-890: the batch before one with another sequence is on its way, or was refused."""
    log = Log()
    assert isinstance(log.append(1, guard=None), OutOfOrderSequence)
    assert (log.append(0, guard=None), log.append(1, asked=False)) == (0, 1)
    assert Log().append(1) == 0


def test_a_repeat_of_a_batch_is_known_after_the_marker_too() -> None:
    log = Log()
    assert (log.append(0), log.mark()) == (0, 1)
    assert log.append(0, asked=False) == 0


def test_a_marker_of_a_higher_epoch_fences_the_batches_before_it() -> None:
    log = Log()
    assert (log.append(0), log.mark(epoch=1)) == (0, 1)
    assert isinstance(log.append(1, guard=1), InvalidProducerEpoch)
    assert isinstance(log.append(1, epoch=1, guard=1), OutOfOrderSequence)
    assert log.append(0, epoch=1, guard=1) == 2


def test_a_marker_fences_a_producer_of_which_nothing_was_written() -> None:
    log = Log()
    assert log.mark(epoch=3) == 0
    assert isinstance(log.append(0, epoch=2, guard=0), InvalidProducerEpoch)


def test_a_marker_of_an_earlier_epoch_or_coordinator_is_refused() -> None:
    log = Log()
    assert log.mark(epoch=3, coordinator=7) == 0
    assert isinstance(log.mark(epoch=2, coordinator=7), InvalidProducerEpoch)
    assert isinstance(log.mark(epoch=3, coordinator=6), TransactionCoordinatorFenced)
    assert log.mark(epoch=3, coordinator=8) == 1


def test_within_a_transaction_there_are_only_batches_of_it() -> None:
    log = Log()
    assert log.append(0) == 0
    assert isinstance(log.append(1, transactional=False), InvalidTransactionState)
    assert isinstance(log.append(0, epoch=1), ConcurrentTransactions)


def test_with_an_epoch_for_each_transaction_the_marker_before_may_come_meanwhile() -> None:
    """Of transactions v2: the producer writes before its last transaction has all of its markers."""
    log = Log()
    assert log.append(0) == 0
    assert isinstance(log.append(0, epoch=1, guard=None), ConcurrentTransactions)
    assert log.mark(epoch=1) == 1
    assert log.append(0, epoch=1, guard=None) == 2
    assert log.mark(epoch=2) == 3
    assert isinstance(log.append(1, epoch=1, guard=None), InvalidProducerEpoch)


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    log = Log()
    log.append(0)
    assert log.state.expire(NOW + 1_000_000) == 0
    log.mark()
    assert log.state.expire(NOW + 1_000_000) == 1


def test_the_number_of_open_transactions_is_bounded() -> None:
    refused = Log(open_max=0).append(0)
    assert isinstance(refused, ConcurrentTransactions)
    assert refused.limit == 0


def test_a_snapshot_has_markers_and_transactions() -> None:
    log = Log()
    log.mark(epoch=2, coordinator=9)
    log.append(0, epoch=2, guard=0)
    again = ProducerState(producers_max=10, expiry_ms=60_000)
    again.restore(log.state.to_bytes())
    assert dict(again) == dict(log.state)
    assert dict(again.transactions) == dict(log.state.transactions)
    assert again.guard(5) == 0
