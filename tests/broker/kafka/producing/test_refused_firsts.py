"""Which producers have to repeat a batch."""

from __future__ import annotations

import pytest

from strandline.broker.core.replication.producer_state import SEQUENCES
from strandline.broker.kafka.handlers.producing.refused_firsts import (
    REFUSED_MAX,
    REMEMBERED_S,
    Place,
    RefusedFirsts,
    Sequenced,
)
from strandline.errors import CorruptMessage, NotEnoughReplicas, OutcomeUnknown, OutOfOrderSequence
from strandline.ids import NO_TOPIC_ID, TopicId
from strandline.records.header import HEADER_BYTES
from tests.broker.support.replicas import batch

PLACE = Place("t", 0)
FIRST, SECOND = Sequenced(7, 0, 0), Sequenced(7, 0, 1)
REFUSAL = NotEnoughReplicas("1 of 2")


class Firsts(RefusedFirsts):
    """Of a broker with one log of each name, of a topic that can be replaced."""

    def __init__(self) -> None:
        self.present = TopicId("a")
        super().__init__(lambda name: self.present)

    def precede(self, place: Place, batch: Sequenced, now_s: float) -> bool:
        refusal = self.refusal(place, batch, now_s)
        assert refusal is None or isinstance(refusal, OutOfOrderSequence)
        return refusal is not None


def test_a_producer_is_known_by_its_partition_id_and_epoch_for_some_time() -> None:
    firsts = Firsts()
    firsts.note(PLACE, FIRST, REFUSAL, 10.0)
    assert firsts.precede(PLACE, SECOND, 10.0 + REMEMBERED_S)
    assert not firsts.precede(PLACE, SECOND, 10.1 + REMEMBERED_S)
    assert not firsts.precede(PLACE, Sequenced(7, 1, 1), 10.0)
    assert not firsts.precede(PLACE, Sequenced(8, 0, 1), 10.0)
    assert not firsts.precede(Place("t", 1), SECOND, 10.0)


def test_a_batch_counts_that_will_be_sent_again() -> None:
    firsts = Firsts()
    firsts.note(PLACE, None, REFUSAL, 0.0)
    firsts.note(PLACE, FIRST, CorruptMessage("no batch"), 0.0)
    assert not firsts.precede(PLACE, SECOND, 0.0)
    firsts.note(PLACE, FIRST, OutcomeUnknown("the leadership ended"), 0.0)
    assert firsts.precede(PLACE, SECOND, 0.0)


def test_the_earliest_refused_batch_comes_first() -> None:
    """A producer has several batches in flight, and the circle of sequences has no beginning."""
    firsts, last = Firsts(), Sequenced(7, 0, SEQUENCES - 1)
    for refused in (last, FIRST, SECOND):
        firsts.note(PLACE, refused, REFUSAL, 0.0)
    assert not firsts.precede(PLACE, last, 0.0)
    assert firsts.precede(PLACE, FIRST, 0.0)
    assert firsts.precede(PLACE, SECOND, 0.0)


@pytest.mark.parametrize("refused_by", ["old", NO_TOPIC_ID])
def test_a_refusal_by_another_topic_counts_once(refused_by: TopicId) -> None:
    """The producer has delivered that batch to another broker since then, or its next one was on its way."""
    firsts = Firsts()
    firsts.present = refused_by
    firsts.note(PLACE, FIRST, REFUSAL, 0.0)
    firsts.present = TopicId("new")
    assert firsts.refusal(PLACE, FIRST, 1.0) is None
    assert firsts.refusal(PLACE, SECOND, 1.0) is REFUSAL
    firsts.note(PLACE, SECOND, REFUSAL, 1.0)
    assert firsts.refusal(PLACE, FIRST, 2.0) is None
    assert firsts.refusal(PLACE, SECOND, 2.0) is None
    assert firsts.precede(PLACE, Sequenced(7, 0, 2), 2.0)


def test_a_refusal_by_another_id_counts_once() -> None:
    """The second batch names the topic that was made anew, and was sent before the first came back."""
    firsts, old, new = Firsts(), Place("old", 0, by_id=True), Place("new", 0, by_id=True)
    firsts.note(old, FIRST, REFUSAL, 0.0)
    assert firsts.refusal(Place("new", 1, by_id=True), SECOND, 1.0) is None, "of another partition"
    assert firsts.refusal(new, SECOND, 1.0) is REFUSAL
    firsts.note(new, SECOND, REFUSAL, 1.0)
    assert firsts.precede(new, Sequenced(7, 0, 2), 2.0)
    assert firsts.refusal(new, FIRST, 2.0) is None
    assert firsts.refusal(new, SECOND, 2.0) is None
    assert firsts.precede(old, SECOND, 2.0), "of each topic by itself, as before"


def test_the_producers_that_are_remembered_are_bounded() -> None:
    firsts = Firsts()
    for producer in range(REFUSED_MAX + 1):
        firsts.note(PLACE, Sequenced(producer, 0, 0), REFUSAL, 0.0)
    remembered = [firsts.precede(PLACE, Sequenced(p, 0, 1), 0.0) for p in (0, 1, REFUSED_MAX)]
    assert remembered == [False, True, True]


def test_only_batches_of_idempotent_producers_have_a_sequence() -> None:
    assert Sequenced.of(batch("x", producer=(7, 3))) == Sequenced(7, 0, 3)
    assert Sequenced.of(batch("x")) is None
    assert Sequenced.of(b"x" * (HEADER_BYTES - 1)) is None
