"""Which producers have to repeat a batch."""

from __future__ import annotations

from strandline.broker.core.replication.producer_state import SEQUENCES
from strandline.broker.kafka.handlers.producing.refused_firsts import (
    REFUSED_MAX,
    REMEMBERED_S,
    RefusedFirsts,
    Sequenced,
)
from strandline.errors import CorruptMessage, NotEnoughReplicas, OutcomeUnknown
from strandline.ids import TopicPartition
from strandline.records.header import HEADER_BYTES
from tests.broker.support.replicas import batch

PLACE = TopicPartition("t", 0)
FIRST, SECOND = Sequenced(7, 0, 0), Sequenced(7, 0, 1)
REFUSAL = NotEnoughReplicas("1 of 2")


def test_a_producer_is_known_by_its_partition_id_and_epoch_for_some_time() -> None:
    firsts = RefusedFirsts()
    firsts.note(PLACE, FIRST, REFUSAL, 10.0)
    assert firsts.precede(PLACE, SECOND, 10.0 + REMEMBERED_S)
    assert not firsts.precede(PLACE, SECOND, 10.1 + REMEMBERED_S)
    assert not firsts.precede(PLACE, Sequenced(7, 1, 1), 10.0)
    assert not firsts.precede(PLACE, Sequenced(8, 0, 1), 10.0)
    assert not firsts.precede(TopicPartition("t", 1), SECOND, 10.0)


def test_a_batch_counts_that_will_be_sent_again() -> None:
    firsts = RefusedFirsts()
    firsts.note(PLACE, None, REFUSAL, 0.0)
    firsts.note(PLACE, FIRST, CorruptMessage("no batch"), 0.0)
    assert not firsts.precede(PLACE, SECOND, 0.0)
    firsts.note(PLACE, FIRST, OutcomeUnknown("the leadership ended"), 0.0)
    assert firsts.precede(PLACE, SECOND, 0.0)


def test_the_earliest_refused_batch_comes_first() -> None:
    """A producer has several batches in flight, and the circle of sequences has no beginning."""
    firsts, last = RefusedFirsts(), Sequenced(7, 0, SEQUENCES - 1)
    for refused in (last, FIRST, SECOND):
        firsts.note(PLACE, refused, REFUSAL, 0.0)
    assert not firsts.precede(PLACE, last, 0.0)
    assert firsts.precede(PLACE, FIRST, 0.0)
    assert firsts.precede(PLACE, SECOND, 0.0)


def test_the_producers_that_are_remembered_are_bounded() -> None:
    firsts = RefusedFirsts()
    for producer in range(REFUSED_MAX + 1):
        firsts.note(PLACE, Sequenced(producer, 0, 0), REFUSAL, 0.0)
    remembered = [firsts.precede(PLACE, Sequenced(p, 0, 1), 0.0) for p in (0, 1, REFUSED_MAX)]
    assert remembered == [False, True, True]


def test_only_batches_of_idempotent_producers_have_a_sequence() -> None:
    assert Sequenced.of(batch("x", producer=(7, 3))) == Sequenced(7, 0, 3)
    assert Sequenced.of(batch("x")) is None
    assert Sequenced.of(b"x" * (HEADER_BYTES - 1)) is None
