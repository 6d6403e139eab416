"""What becomes of batches when their topic changes: its limit, its partitions, or the topic itself."""

from __future__ import annotations

from strandline.errors import (
    MessageTooLarge,
    OutcomeUnknown,
    OutOfOrderSequence,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from strandline.ids import TopicId
from strandline.producer.core.effects import Divide
from strandline.records import pack_values
from tests.producer.core.test_accumulator import CONNECTION, NAME, NEXT_CONNECTION, Bench, failures, of_kind

OLD, NEW = TopicId("0" * 31 + "1"), TopicId("0" * 31 + "2")


def test_the_pieces_of_a_batch_take_its_place_and_its_sequences() -> None:
    """KAFKA-3995: what was behind it is sent again behind them."""
    bench = Bench()
    bench.add("first", count=5)
    bench.add("behind")
    bench.take()
    first, behind = bench.in_flight()
    effects = bench.core.refused(first, MessageTooLarge("more than 100 bytes", limit=100))
    assert of_kind(effects, Divide) == [effects[0]] and not failures(effects)
    pieces = [(pack_values([b"v"] * count, 0), ticket) for count, ticket in ((2, "a"), (3, "b"))]
    parts = bench.core.divided(first, pieces)
    assert [(part.sequence, part.record_count) for part in parts] == [(0, 2), (2, 3)]
    assert bench.take() == [], "the batch behind it is not answered yet"
    bench.core.refused(behind, OutOfOrderSequence("after nothing"))
    bench.core.backed_off(bench.queue, bench.queue.pause)
    assert bench.take() == ["a", "b", "behind"]
    assert [batch.sequence for batch in bench.in_flight()] == [0, 2, 5]


def test_a_batch_that_may_be_in_the_log_is_not_divided() -> None:
    """Its pieces would be there twice."""
    bench = Bench()
    bench.add("first", count=5)
    bench.take()
    (batch,) = bench.in_flight()
    bench.core.lost(CONNECTION, OutcomeUnknown("reset by peer"))
    bench.core.backed_off(bench.queue, bench.queue.pause)
    bench.take(connection=NEXT_CONNECTION)
    effects = bench.core.refused(batch, MessageTooLarge("more than 100 bytes", limit=100))
    assert isinstance(failures(effects)["first"], OutcomeUnknown)


def test_a_topic_that_was_made_anew_gets_all_that_is_not_acknowledged_from_sequence_0() -> None:
    """KIP-516: no attempt at the old topic can be in the new one, so nothing is sent twice."""
    bench = Bench()
    bench.queue.topic_id = OLD
    bench.add("acknowledged", "unanswered", "waiting")
    bench.take()
    first, second, third = bench.in_flight()
    bench.core.acknowledged(first, 0)
    assert not failures(bench.core.begin_anew(bench.queue, NEW, 1024))
    assert bench.take() == [], "attempts at the old topic are not answered yet"
    for batch in (second, third):
        assert not failures(bench.core.refused(batch, UnknownTopicId("made anew")))
    assert bench.take() == ["unanswered", "waiting"]
    assert [(batch.sequence, batch.topic_id) for batch in bench.in_flight()] == [(0, NEW), (1, NEW)]


def test_an_expected_offset_is_of_one_topic_alone() -> None:
    bench = Bench()
    bench.queue.topic_id = OLD
    bench.core.add(bench.queue, pack_values([b"v"], 0), "sent", 0, 5)
    bench.take()
    bench.core.add(bench.queue, pack_values([b"v"], 0), "waiting", 0, 6)
    effects = bench.core.begin_anew(bench.queue, NEW, 1024)
    effects += bench.core.refused(bench.in_flight()[0], UnknownTopicId("made anew"))
    found = failures(effects)
    assert list(found) == ["waiting", "sent"]
    assert all(isinstance(error, UnknownTopicId) for error in found.values())


def test_a_partition_that_is_gone_takes_nothing_until_the_topic_has_it_again() -> None:
    bench = Bench()
    bench.add("in flight")
    bench.take()
    bench.add("waiting")
    gone = UnknownTopicOrPartition("partitions 0 to 0")
    assert failures(bench.core.end(bench.queue, gone)) == {"in flight": gone, "waiting": gone}
    bench.add("later")
    assert failures(bench.core.fail_behind_gap(bench.queue)) == {"later": gone}
    assert bench.core.queue(NAME, 1024, NEW) is bench.queue and not bench.queue.gone
