"""The meaning of an answer, case by case (KIP-98, KIP-360)."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.config.load import load
from strandline.config.producer import ProducerSettings
from strandline.errors import (
    DuplicateSequence,
    MessageTooLarge,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    Outcome,
    OutcomeUnknown,
    OutOfOrderSequence,
    RequestTimedOut,
    SettingsError,
    StrandlineError,
    UnexpectedOffset,
    UnknownProducerId,
)
from strandline.ids import TopicPartition
from strandline.ports import StreamOver
from strandline.producer.core.accumulator import Accumulator
from strandline.producer.core.batch import Batch, PartitionQueue
from strandline.producer.core.effects import (
    Acknowledged,
    DelaySend,
    DoubtLeader,
    Effect,
    Failed,
    Renew,
    Send,
)
from strandline.records import pack_values, split
from strandline.vocabulary.log import ProducerIdentity

LEADER, NEXT_LEADER = 1, 2
CONNECTION, NEXT_CONNECTION = 10, 20
NAME = TopicPartition("t", 0)
Effects = list[Effect[str]]


class Bench:
    """One accumulator with one partition, led by LEADER in epoch 1."""

    def __init__(self, **settings: Any) -> None:
        self.core: Accumulator[str] = Accumulator(ProducerSettings(**settings))
        if self.core.idempotent:
            self.core.identity = ProducerIdentity(7, 0)
        self.queue: PartitionQueue[str] = self.core.queue(NAME, 1024)
        assert self.core.led(NAME, LEADER, 1) == []

    def add(self, *tickets: str, now: float = 0, count: int = 1) -> list[Batch[str]]:
        batches = [self.core.add(self.queue, pack_values([b"v"] * count, 0), t, now) for t in tickets]
        self.core.ready(self.queue)
        return batches

    def take(self, broker: int = LEADER, connection: int = CONNECTION) -> list[str]:
        self.core.ready(self.queue)
        return [batch.ticket for batch in self.core.take(broker, connection)]

    def in_flight(self) -> list[Batch[str]]:
        return list(self.queue.in_flight)


def failures(effects: Effects) -> dict[str, StrandlineError]:
    return {effect.batch.ticket: effect.error for effect in effects if isinstance(effect, Failed)}


def of_kind(effects: Effects, kind: type[Any]) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kind)]


def test_as_many_batches_are_in_flight_as_a_broker_remembers_and_sequences_follow_each_other() -> None:
    bench = Bench()
    bench.add(*"abcdefghijkl", count=3)
    assert bench.take() == list("abcdefghij")
    assert [batch.sequence for batch in bench.in_flight()] == list(range(0, 30, 3))
    header = split(bench.in_flight()[1].seal())[0]
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, 3)
    effects = bench.core.acknowledged(bench.in_flight()[0], 100)
    assert effects == [Acknowledged(of_kind(effects, Acknowledged)[0].batch, 100), Send(bench.queue)]
    assert bench.take() == ["k"]


def test_without_idempotence_one_batch_is_in_flight_so_that_a_repeat_cannot_reorder() -> None:
    bench = Bench(enable_idempotence=False)
    bench.add("a", "b")
    assert bench.take() == ["a"]
    assert split(bench.in_flight()[0].seal())[0].producer_id == -1


def test_acks_other_than_all_are_not_idempotent_as_with_kafka() -> None:
    assert not Bench(acks=1).core.idempotent
    assert not Bench(acks=0).core.idempotent


def test_with_acks_0_a_batch_is_done_when_it_is_written() -> None:
    bench = Bench(acks=0)
    bench.add("a", "b")
    taken = bench.core.take(LEADER, CONNECTION)
    effects = bench.core.written(taken)
    assert [(e.batch.ticket, e.base_offset) for e in of_kind(effects, Acknowledged)] == [("a", -1), ("b", -1)]


def test_after_a_failure_the_batches_behind_are_awaited_and_all_are_resent_in_order() -> None:
    bench = Bench()
    bench.add(*"abc")
    a, b, c = bench.core.take(LEADER, CONNECTION)
    sequences = [batch.sequence for batch in (a, b, c)]
    effects = bench.core.refused(b, NotLeaderOrFollower("no"))
    assert of_kind(effects, DoubtLeader)
    (pause,) = of_kind(effects, DelaySend)
    assert bench.core.backed_off(bench.queue, pause.pause) == [Send(bench.queue)]
    assert bench.take() == [], "a and c are still in flight"
    bench.core.refused(a, NotLeaderOrFollower("no"))
    bench.core.refused(c, OutOfOrderSequence("a gap"))
    assert bench.take() == ["a", "b", "c"]
    assert [batch.sequence for batch in (a, b, c)] == sequences


def test_a_new_leader_is_tried_at_once_but_only_when_nothing_is_in_flight_at_the_old_one() -> None:
    bench = Bench()
    bench.add("a", "b")
    a, b = bench.core.take(LEADER, CONNECTION)
    bench.core.refused(a, NotLeaderOrFollower("no"))
    assert bench.core.led(NAME, NEXT_LEADER, 2) == [Send(bench.queue)]
    assert bench.take(NEXT_LEADER, NEXT_CONNECTION) == []
    effects = bench.core.refused(b, NotLeaderOrFollower("no"))
    assert effects == [Send(bench.queue)], "the new leader has refused nothing: neither pause nor doubt"
    assert bench.take(LEADER, CONNECTION) == []
    assert bench.take(NEXT_LEADER, NEXT_CONNECTION) == ["a", "b"]


def test_a_success_during_a_pause_does_not_keep_the_pause_from_ending() -> None:
    bench = Bench()
    bench.add("a", "b")
    a, b = bench.core.take(LEADER, CONNECTION)
    (pause,) = of_kind(bench.core.refused(a, RequestTimedOut("late")), DelaySend)
    bench.core.acknowledged(b, 1)
    assert bench.core.backed_off(bench.queue, pause.pause) == [Send(bench.queue)]
    assert bench.take() == ["a"]


def test_unanswered_batches_of_a_lost_connection_are_resent_with_their_sequences() -> None:
    bench = Bench()
    bench.add("a", "b")
    a, b = bench.core.take(LEADER, CONNECTION)
    bench.core.lost(CONNECTION, OutcomeUnknown("reset by peer"))
    bench.core.led(NAME, NEXT_LEADER, 2)
    assert bench.take(NEXT_LEADER, NEXT_CONNECTION) == ["a", "b"]
    assert (a.sequence, b.sequence) == (0, 1)
    assert a.unknown and b.unknown


def test_batches_that_a_broker_did_not_take_are_sent_again_and_are_not_in_doubt() -> None:
    """A11: its login had ended. So a producer without sequences writes none of them twice."""
    bench = Bench()
    bench.add("a")
    (a,) = bench.core.take(LEADER, CONNECTION)
    bench.core.lost(CONNECTION, StreamOver("the login has ended"))
    bench.core.led(NAME, NEXT_LEADER, 2)
    assert bench.take(NEXT_LEADER, NEXT_CONNECTION) == ["a"]
    assert not a.unknown


def test_a_duplicate_that_a_broker_no_longer_remembers_is_a_success_once_a_later_batch_is_one() -> None:
    """A broker that remembers fewer batches than are in flight reports it before it is replicated. What is
    replicated behind it shows that it is, too."""
    bench = Bench()
    bench.add("a", "b")
    a, b = bench.core.take(LEADER, CONNECTION)
    effects = bench.core.refused(a, DuplicateSequence("long ago"))
    assert of_kind(effects, Acknowledged) == of_kind(effects, DoubtLeader) == []
    (pause,) = of_kind(effects, DelaySend)
    assert bench.core.acknowledged(b, 1) == [Acknowledged(b, 1), Send(bench.queue)]
    bench.core.backed_off(bench.queue, pause.pause)
    assert bench.take() == ["a"]
    assert bench.core.refused(a, DuplicateSequence("long ago")) == [Acknowledged(a, -1)]


def test_a_duplicate_without_an_acknowledged_batch_behind_it_ends_with_an_unknown_outcome() -> None:
    bench = Bench()
    bench.add("a")
    (a,) = bench.core.take(LEADER, CONNECTION)
    assert not failures(bench.core.refused(a, DuplicateSequence("long ago")))
    assert failures(bench.core.expire(a.deadline))["a"].outcome is Outcome.UNKNOWN


def test_a_fatal_error_fails_its_batch_and_the_others_continue_under_another_producer_id() -> None:
    """The batches behind have sequences that can no longer follow anything."""
    bench = Bench()
    bench.add(*"abc")
    a, b, c = bench.core.take(LEADER, CONNECTION)
    assert isinstance(failures(bench.core.refused(a, MessageTooLarge("no")))["a"], MessageTooLarge)
    assert bench.take() == []
    assert bench.core.refused(b, OutOfOrderSequence("a gap")) == []
    effects = bench.core.refused(c, OutOfOrderSequence("a gap"))
    assert effects == [Renew(bench.queue)]
    assert bench.core.renewed(bench.queue, ProducerIdentity(8, 0)) == [Send(bench.queue)]
    assert bench.take() == ["b", "c"]
    assert (b.sequence, c.sequence) == (0, 1)
    assert split(b.seal())[0].producer_id == 8


def test_out_of_order_is_fatal_unless_an_earlier_batch_is_on_its_way() -> None:
    bench = Bench()
    bench.add("a")
    (a,) = bench.core.take(LEADER, CONNECTION)
    error = failures(bench.core.refused(a, OutOfOrderSequence("lost records")))["a"]
    assert isinstance(error, OutOfOrderSequence) and error.outcome is Outcome.FATAL


def test_a_forgotten_producer_continues_under_another_id_from_sequence_0() -> None:
    """KIP-360: nothing is in doubt, since all that was sent before is acknowledged."""
    bench = Bench()
    bench.add("a", "b")
    a, b = bench.core.take(LEADER, CONNECTION)
    bench.core.acknowledged(a, 0)
    assert bench.core.refused(b, UnknownProducerId("who?")) == [Renew(bench.queue)]
    bench.core.renewed(bench.queue, ProducerIdentity(8, 0))
    assert bench.take() == ["b"] and b.sequence == 0


def test_a_forgotten_producer_whose_batch_may_be_in_the_log_does_not_write_it_again() -> None:
    bench = Bench()
    bench.add("a", "b")
    a, b = bench.core.take(LEADER, CONNECTION)
    bench.core.acknowledged(a, 0)
    bench.core.refused(b, RequestTimedOut("not in time"))
    bench.core.backed_off(bench.queue, 1)
    assert bench.take() == ["b"]
    effects = bench.core.refused(b, UnknownProducerId("who?"))
    assert failures(effects)["b"].outcome is Outcome.UNKNOWN
    assert of_kind(effects, Renew)


def test_an_unsent_batch_expires_as_retriable() -> None:
    bench = Bench(delivery_timeout_ms=1000)
    bench.add("a")
    assert bench.core.expire(0.999) == []
    assert failures(bench.core.expire(1.0))["a"].outcome is Outcome.RETRIABLE
    assert bench.queue.empty


def test_a_refused_batch_expires_with_its_refusal() -> None:
    bench = Bench(delivery_timeout_ms=1000)
    bench.add("a")
    (a,) = bench.core.take(LEADER, CONNECTION)
    bench.core.refused(a, NotEnoughReplicas("1 of 2"))
    effects = bench.core.expire(1.0)
    assert isinstance(failures(effects)["a"], NotEnoughReplicas)
    assert of_kind(effects, Renew), "its sequence is used up"


def test_a_batch_in_flight_expires_as_unknown_and_its_late_answer_changes_nothing() -> None:
    bench = Bench(delivery_timeout_ms=1000)
    bench.add("a")
    bench.add("b", now=0.5)
    a, b = bench.core.take(LEADER, CONNECTION)
    effects = bench.core.expire(1.0)
    assert failures(effects)["a"].outcome is Outcome.UNKNOWN
    assert not of_kind(effects, Renew), "its answer, and b's, are still to come"
    assert bench.core.acknowledged(a, 0) == []
    assert bench.core.acknowledged(b, 1) == [Acknowledged(b, 1), Renew(bench.queue)]


def test_behind_an_expired_batch_that_may_be_in_the_log_every_batch_ends_as_unknown_too() -> None:
    """Sent again under another producer id it could be written twice."""
    bench = Bench(delivery_timeout_ms=1000)
    bench.add("a")
    bench.add("b", now=0.5)
    bench.add("c", now=0.6)
    bench.core.take(LEADER, CONNECTION)
    bench.core.lost(CONNECTION, OutcomeUnknown("reset by peer"))
    bench.add("d", now=0.7)
    effects = bench.core.expire(1.0)
    assert {t: e.outcome for t, e in failures(effects).items()} == dict.fromkeys("abc", Outcome.UNKNOWN)
    assert of_kind(effects, Renew)
    bench.core.renewed(bench.queue, ProducerIdentity(8, 0))
    assert bench.take() == ["d"]


def test_an_error_after_an_unanswered_try_is_an_unknown_outcome() -> None:
    """ "Fatal" would say that the batch is not in the log."""
    bench = Bench()
    bench.add("a")
    (a,) = bench.core.take(LEADER, CONNECTION)
    bench.core.lost(CONNECTION, OutcomeUnknown("reset by peer"))
    bench.core.led(NAME, NEXT_LEADER, 2)
    bench.take(NEXT_LEADER, NEXT_CONNECTION)
    assert failures(bench.core.refused(a, MessageTooLarge("no")))["a"].outcome is Outcome.UNKNOWN


def test_a_message_carries_at_most_512_kib_over_all_its_entries() -> None:
    """PERFORMANCE, Transport: past that the copies cost more than the calls."""
    core: Accumulator[int] = Accumulator(ProducerSettings())
    core.identity = ProducerIdentity(7, 0)
    big = pack_values([bytes(200 * 1024)], 0)
    for number in range(5):
        queue = core.queue(TopicPartition("t", number), RECORDS_BYTES_MAX)
        core.led(queue.name, LEADER, 1)
        core.add(queue, big, number, 0)
        core.ready(queue)
    assert [[batch.ticket for batch in core.take(LEADER, CONNECTION)] for _ in range(4)] == [
        [0, 1], [2, 3], [4], [],
    ]  # fmt: skip


def test_what_the_next_message_would_have_is_known_before_it_is_taken() -> None:
    """Batches that may not be sent now do not count: they are behind as many as may be in flight, or for
    another broker or connection."""
    bench = Bench(in_flight_per_partition_max=3)
    two = sum(batch.size for batch in bench.add("a", "b"))
    assert bench.core.offers(LEADER, CONNECTION, two)
    assert not bench.core.offers(LEADER, CONNECTION, two + 1)
    assert not bench.core.offers(NEXT_LEADER, CONNECTION, 1)
    assert bench.take() == ["a", "b"]
    bench.add("c", "d")
    assert bench.core.offers(LEADER, CONNECTION, two // 2)
    assert not bench.core.offers(LEADER, CONNECTION, two)
    assert not bench.core.offers(LEADER, NEXT_CONNECTION, 1)


def test_an_open_batch_counts_once_it_is_ripe() -> None:
    bench = Bench()
    batch = bench.core.begin(bench.queue, "a", 0)
    bench.core.ready(bench.queue)
    assert not bench.core.offers(LEADER, CONNECTION, 1)
    batch.due = True
    assert bench.core.offers(LEADER, CONNECTION, batch.size)


def test_a_broker_is_wanted_only_for_partitions_that_it_leads() -> None:
    bench = Bench()
    assert not bench.core.wants(LEADER)
    bench.add("a")
    assert bench.core.wants(LEADER)
    bench.core.led(NAME, NEXT_LEADER, 2)
    bench.core.ready(bench.queue)
    assert not bench.core.wants(LEADER) and bench.core.wants(NEXT_LEADER)
    assert bench.take(NEXT_LEADER, NEXT_CONNECTION) == ["a"]
    assert not bench.core.wants(NEXT_LEADER)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_an_open_batch_is_sent_once_it_is_ripe_and_takes_no_more_then(codec: str) -> None:
    bench = Bench(compression=codec)
    batch = bench.core.begin(bench.queue, "a", 0)
    batch.records.append((b"k", b"v", (), 5))
    assert bench.take() == []
    batch.due = True
    assert bench.take() == ["a"]
    assert bench.queue.open is None
    assert split(batch.seal())[0].record_count == 1


def test_stopping_ends_every_batch_with_its_known_outcome() -> None:
    bench = Bench(in_flight_per_partition_max=5)
    bench.add(*"abcdef")
    bench.take()
    ends = {ticket: error.outcome for ticket, error in failures(bench.core.give_up()).items()}
    assert ends == {**dict.fromkeys("abcde", Outcome.UNKNOWN), "f": Outcome.RETRIABLE}


# --- expected offsets, and gapless producers ------------------------------------------------------


def test_a_batch_that_is_refused_for_its_offset_fails_alone() -> None:
    """It used a sequence that is not in the log, so the batches behind it continue under another producer
    id."""
    bench = Bench()
    bench.core.add(bench.queue, pack_values([b"v"], 0), "a", 0, expected_offset=7)
    bench.add("b")
    a, b = bench.core.take(LEADER, CONNECTION)
    assert (a.expected_offset, b.expected_offset) == (7, None)
    assert isinstance(failures(bench.core.refused(a, UnexpectedOffset("ends at 9")))["a"], UnexpectedOffset)
    assert bench.core.refused(b, OutOfOrderSequence("a gap")) == [Renew(bench.queue)]
    bench.core.renewed(bench.queue, ProducerIdentity(8, 0))
    assert bench.take() == ["b"] and b.sequence == 0


def test_a_refusal_for_the_offset_after_an_unanswered_try_is_an_unknown_outcome() -> None:
    """The first try may be what the log went on with, at a leader that comes back with it."""
    bench = Bench()
    bench.core.add(bench.queue, pack_values([b"v"], 0), "a", 0, expected_offset=7)
    bench.core.ready(bench.queue)
    (a,) = bench.core.take(LEADER, CONNECTION)
    bench.core.lost(CONNECTION, OutcomeUnknown("reset by peer"))
    bench.core.led(NAME, NEXT_LEADER, 2)
    bench.take(NEXT_LEADER, NEXT_CONNECTION)
    assert isinstance(failures(bench.core.refused(a, UnexpectedOffset("ends at 9")))["a"], OutcomeUnknown)


def test_a_gapless_producer_fails_all_batches_behind_a_failed_one_at_once() -> None:
    bench = Bench(gapless=True)
    bench.add(*"abcdef")
    a, b, *behind = bench.core.take(LEADER, CONNECTION)
    bench.core.begin(bench.queue, "g", 0)
    error = UnexpectedOffset("somebody else was there")
    assert failures(bench.core.refused(b, error)) == dict.fromkeys("bcdefg", error)
    assert bench.core.acknowledged(a, 0) == [Acknowledged(a, 0), Send(bench.queue)]
    for batch in behind:
        assert not failures(bench.core.refused(batch, OutOfOrderSequence("a gap")))
    assert bench.queue.empty and not bench.queue.resetting
    bench.add("h")
    assert bench.take() == [], "not even before it knows"
    assert failures(bench.core.fail_behind_gap(bench.queue)) == {"h": error}
    assert bench.queue.empty


def test_batches_before_a_gap_continue_under_their_sequence() -> None:
    """It may be in the log already, and the broker knows it by its producer id only."""
    bench = Bench(gapless=True)
    bench.add(*"abc")
    a, b, c = bench.core.take(LEADER, CONNECTION)
    bench.core.refused(a, RequestTimedOut("appended, but late"))
    assert set(failures(bench.core.refused(b, MessageTooLarge("no")))) == {"b", "c"}
    bench.core.refused(c, OutOfOrderSequence("a gap"))
    bench.core.led(NAME, NEXT_LEADER, 2)
    assert bench.take(NEXT_LEADER, NEXT_CONNECTION) == ["a"]
    assert split(a.seal())[0].producer_id == 7 and a.sequence == 0


def test_a_gap_is_where_the_earliest_batch_is_missing() -> None:
    bench = Bench(gapless=True)
    bench.add(*"abc")
    a, b, c = bench.core.take(LEADER, CONNECTION)
    assert list(failures(bench.core.refused(c, MessageTooLarge("c is")))) == ["c"]
    error = MessageTooLarge("a is")
    assert failures(bench.core.refused(a, error)) == {"a": error, "b": error}
    bench.add("d")
    assert failures(bench.core.fail_behind_gap(bench.queue)) == {"d": error}
    assert bench.core.refused(b, OutOfOrderSequence("a gap")) == []


def test_another_producer_id_skips_no_gap() -> None:
    """The broker forgot the producer while batches behind the first were unanswered: the first continues
    under another id. The outcome of the others is unknown, so neither they nor the batches behind them follow
    it."""
    bench = Bench(gapless=True)
    large = pack_values([bytes(200 * 1024)], 0)
    for ticket in "abcd":
        bench.core.add(bench.queue, large, ticket, 0)
    bench.core.ready(bench.queue)
    a, b = bench.core.take(LEADER, CONNECTION)
    assert bench.take() == ["c", "d"]
    bench.core.refused(a, NotEnoughReplicas("1 of 2"))
    bench.core.lost(CONNECTION, OutcomeUnknown("reset by peer"))
    bench.core.led(NAME, NEXT_LEADER, 2)
    assert bench.take(NEXT_LEADER, NEXT_CONNECTION) == ["a", "b"]
    bench.add("e")
    behind = failures(bench.core.refused(a, UnknownProducerId("who?")))
    assert {ticket: error.outcome for ticket, error in behind.items()} == dict.fromkeys(
        "cde", Outcome.UNKNOWN
    )
    effects = bench.core.refused(b, UnknownProducerId("who?"))
    assert list(failures(effects)) == ["b"] and of_kind(effects, Renew)
    bench.core.renewed(bench.queue, ProducerIdentity(8, 0))
    bench.add("f")
    assert bench.take(NEXT_LEADER, NEXT_CONNECTION) == ["a"]
    assert split(a.seal())[0].producer_id == 8 and a.sequence == 0


def test_an_expired_batch_leaves_a_gap_too() -> None:
    bench = Bench(gapless=True, delivery_timeout_ms=1000)
    bench.add("a")
    (a,) = bench.core.take(LEADER, CONNECTION)
    bench.add("b", now=0.5)
    effects = bench.core.expire(1.0)
    assert {t: e.outcome for t, e in failures(effects).items()} == dict.fromkeys("ab", Outcome.UNKNOWN)
    assert not of_kind(effects, Renew) and not of_kind(bench.core.acknowledged(a, 0), Renew)
    assert bench.queue.empty


@pytest.mark.parametrize("without", [{"acks": 1}, {"acks": 0}, {"enable_idempotence": False}])
def test_gapless_needs_idempotence(without: dict[str, Any]) -> None:
    """Without sequences a broker takes what is in flight behind a batch that it refused."""
    with pytest.raises(SettingsError, match="gapless"):
        load(ProducerSettings, gapless=True, **without)
