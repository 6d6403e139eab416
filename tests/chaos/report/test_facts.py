"""The figures of a round, compared with figures computed by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from strandline.auditing.checks import Finding
from strandline.auditing.cluster import Observation
from strandline.ids import TopicPartition
from strandline.report.round_files import Moment
from strandline.report.verdict import Verdict, judged
from strandline_lab.chaos.core.faults import Fault, FaultKind, Role, Target
from strandline_lab.chaos.core.plan import Plan
from strandline_lab.chaos.report.facts import facts_of
from strandline_lab.chaos.report.round_data import RoundData
from strandline_lab.report import partitions, traffic
from strandline_lab.report.events import Election, Reader, Sender, Sending, SendOutcome
from strandline_lab.report.spans import NOBODY, Held, Span

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
FOUND = Finding("lost", "a", 0, 7, "record 7 is gone")


def seen(
    at_ms: int,
    leader: int,
    isr: Iterable[int] = (1, 2, 3),
    *,
    epoch: int = 1,
    hw: int | None = None,
    place: TopicPartition = A,
    observer: str = "admin",
) -> Observation:
    return Observation(at_ms, observer, *place, leader, epoch, tuple(isr), hw)


def acked(sent_ms: int, took_ms: float, place: TopicPartition = A) -> Sending:
    return Sending(sent_ms, SendOutcome.ACKED, sent_ms + took_ms, took_ms, place)


def spans(gaps: Iterable[Span]) -> list[tuple[float, float]]:
    return [(gap.from_ms, gap.to_ms) for gap in gaps]


def fault(kind: FaultKind, begins_s: float, lasts_s: float) -> Fault:
    return Fault(kind, Role.BROKER, Target.ANY, 1, begins_s, lasts_s)


# --- partitions -------------------------------------------------------------------------------


def test_a_leader_holds_until_another_one_is_seen_and_the_last_until_the_end() -> None:
    observed = [seen(0, 1), seen(500, 1), seen(1000, NOBODY), seen(1200, 2), seen(2000, 2)]
    held = list(partitions.leaders_of(observed, 2500))
    assert held == [Held(0, 1000, A, 1), Held(1000, 1200, A, NOBODY), Held(1200, 2500, A, 2)]


def test_an_observation_is_not_extended_over_a_long_silence() -> None:
    silent = partitions.SILENT_MS
    observed = [seen(0, 1), seen(10_000, 1)]
    held = list(partitions.leaders_of(observed, 10_100))
    assert held == [Held(0, silent, A, 1), Held(10_000, 10_100, A, 1)]


def test_members_of_an_isr_leave_and_come_back() -> None:
    observed = [seen(0, 1), seen(500, 1, (1, 3)), seen(900, 1, (1, 3)), seen(1300, 1)]
    held = list(partitions.members_of(observed, 1400))
    assert held == [Held(0, 1400, A, 1), Held(0, 500, A, 2), Held(1300, 1400, A, 2), Held(0, 1400, A, 3)]


def test_an_observer_that_is_behind_is_ignored() -> None:
    observed = [seen(0, 1, epoch=4), seen(10, 2, epoch=5), seen(20, 1, epoch=4), seen(30, NOBODY, epoch=-1)]
    assert [each.at_ms for each in partitions.newest(reversed(observed))[A]] == [0, 10, 30]


def test_a_full_isr_is_that_of_the_settled_cluster_or_else_the_largest_seen() -> None:
    observed = [seen(0, 1, (1, 2, 3, 4)), seen(100, 1, (1, 2, 3)), seen(200, 1, (1,))]
    assert partitions.full_size(observed, settled_ms=150) == 3
    assert partitions.full_size(observed, settled_ms=None) == 4


def test_all_is_whole_while_no_partition_lacks_a_replica() -> None:
    observed = {
        A: [seen(0, 1), seen(100, 1, (1, 2)), seen(400, 1)],
        B: [seen(0, 1, place=B), seen(200, 1, (1, 2), place=B), seen(600, 1, place=B)],
    }
    steps = partitions.wholeness(observed, {A: 3, B: 3})
    assert steps == [(0, True), (100, False), (600, True)]
    assert partitions.first_whole(steps, 50) == 0
    assert partitions.first_whole(steps, 450) == 150
    assert partitions.first_whole(steps[:2], 450) is None


def test_an_isr_is_whole_again_from_when_it_stays_so() -> None:
    observed = [seen(0, 1), seen(100, 1, (1,)), seen(200, 1), seen(300, 1, (1, 2)), seen(450, 1)]
    assert partitions.whole_after(observed, 3, healed_ms=250) == 200
    assert partitions.whole_after(observed, 3, healed_ms=500) == 0
    assert partitions.whole_after(observed[:-1], 3, healed_ms=250) is None
    assert partitions.whole_after(observed, 3, healed_ms=None) is None


def test_a_reported_watermark_grows_and_its_fall_is_no_growth() -> None:
    data = [(0, 100), (250, 110), (500, 130), (750, None), (1600, 200), (1700, 190), (1750, 205)]
    observed = [seen(at_ms, 1, hw=hw) for at_ms, hw in data]
    grown = partitions.growth_of(observed, Span(0, 1999))
    assert [(rate.at_ms, rate.per_s) for rate in grown] == [(0, 20), (500, 40), (1000, 0), (1500, 150)]
    assert partitions.falls_of(observed) == [1700]


def test_two_observers_with_different_watermarks_saw_no_fall() -> None:
    assert partitions.falls_of([seen(0, 1, hw=9, observer="one"), seen(1, 1, hw=8, observer="other")]) == []


def test_elections_are_counted_as_recorded_within_the_round_or_else_as_epochs_seen() -> None:
    observed = [seen(0, 1, epoch=1), seen(1, NOBODY, epoch=-1), seen(2, 2, epoch=3), seen(3, 2, epoch=3)]
    recorded = [Election(-5, A, 1), Election(1, A, 2), Election(2, B, 2)]
    assert partitions.elections_of(recorded, A, observed, Span(0, 9)) == 1
    assert partitions.elections_of([], A, observed, Span(0, 9)) == 1


# --- records ----------------------------------------------------------------------------------


def test_gaps_begin_and_end_with_the_load_and_a_young_partition_counts_from_its_birth() -> None:
    load = Span(100, 1000)
    assert spans(traffic.gaps_of([150, 160, 700], load, None)) == [
        (100, 150),
        (150, 160),
        (160, 700),
        (700, 1000),
    ]
    assert spans(traffic.gaps_of([650, 700], load, 600)) == [(600, 650), (650, 700), (700, 1000)]
    assert spans(traffic.gaps_of([], load, None)) == [(100, 1000)]
    assert traffic.gaps_of([150], None, None) == []


def test_rates_are_counted_in_half_seconds_from_the_beginning() -> None:
    times = [0, 100, 499, 500, 1600, 99_999]
    span = Span(0, 1999)
    assert [rate.per_s for rate in traffic.rates(times, span)] == [6, 2, 0, 2]
    assert [rate.at_ms for rate in traffic.rates(times, span, gapless=False)] == [0, 500, 1500]
    assert traffic.rates([], span) == ()


def test_a_latency_stands_where_its_record_was_sent() -> None:
    slow = [acked(10, 1), acked(20, 2), acked(30, 900), acked(600, 5), Sending(700, SendOutcome.UNANSWERED)]
    latencies = traffic.latencies_of(slow, Span(0, 2000))
    assert latencies == (traffic.Latency(0, 2, 900, 900), traffic.Latency(500, 5, 5, 5))


def test_percentiles_are_values_that_were_there() -> None:
    hundred = list(range(1, 101))
    assert [traffic.percentile(hundred, share) for share in (0.5, 0.99, 1.0)] == [50, 99, 100]
    assert traffic.percentile([7.0], 0.5) == 7


# --- the round --------------------------------------------------------------------------------


def moments(*events: tuple[int, str]) -> tuple[Moment, ...]:
    return tuple(Moment(at_ms, event) for at_ms, event in events)


def test_the_verdict_is_the_worst_that_is_known() -> None:
    whole = moments((0, "began"), (9, "ended"))
    unwell = (*whole, Moment(5, "not_settled", detail="broker 2 does not serve"))
    assert judged(whole, []) == (Verdict.GOOD, ())
    assert judged(whole, None)[0] is Verdict.UNJUDGED
    assert judged(whole[:1], []) == (Verdict.UNFINISHED, ("Its last known event is “began”.",))
    assert judged((), []) == (Verdict.UNFINISHED, ("It never began.",))
    assert judged(unwell, []) == (Verdict.UNWELL, ("It did not settle: broker 2 does not serve",))
    assert judged(unwell, [FOUND, FOUND]) == (
        Verdict.WRONG,
        ("2 findings.", "It did not settle: broker 2 does not serve"),
    )


def test_partitions_that_could_not_be_written_to_are_named() -> None:
    events = (*moments((0, "began"), (9, "ended")), Moment(5, "not_writable", partitions=("a-0", "b-1")))
    assert judged(events, []) == (Verdict.UNWELL, ("Not writable: a-0, b-1",))


def test_a_late_recovery_is_none() -> None:
    events = (*moments((0, "began"), (9, "ended")), Moment(5, "writable", took_ms=15_001))
    assert judged(events, []) == (Verdict.UNWELL, ("Writable after 15.0 s only; 15 s are allowed",))


def round_with(*said: Moment, faults: Sequence[Fault] = ()) -> RoundData:
    plan = Plan(7, 10, (), (), tuple(faults))
    sendings = tuple(acked(at_ms, 2) for at_ms in (0, 1000, 1010, 4000, 4010, 9000))
    observed = (seen(0, 1), seen(1100, 1, (1, 2)), seen(5200, 1), seen(8000, 1))
    readers = (Reader("r", (5, 600)),)
    timeline = (Moment(0, "began"), *said, Moment(9500, "ended"))
    return RoundData("r", plan, "", timeline, observed, (), (Sender("p", sendings),), readers, ())


def test_a_fault_knows_when_it_was_what_it_cost_and_when_all_was_whole_again() -> None:
    data = round_with(
        Moment(1050, "fault_began", 0, "kill", ("broker 3",), "leads a-0"),
        Moment(5000, "fault_ended", 0, "kill", ("broker 3",), ""),
        faults=[fault(FaultKind.KILL, 1, 4)],
    )
    (killed,) = facts_of(data).faults
    assert (killed.kind, killed.who, killed.detail) == ("kill", ("broker 3",), "leads a-0")
    assert killed.span == Span(1050, 5000)
    assert killed.gap == (A, Span(4012, 9000))
    assert killed.whole_after_ms == 200


def test_a_fault_of_a_leader_knows_when_the_last_of_its_partitions_had_another_one() -> None:
    hung = round_with(
        Moment(1050, "fault_began", 0, "pause", ("broker 3",)),
        Moment(5000, "fault_ended", 0, "pause", ("broker 3",)),
        faults=[fault(FaultKind.PAUSE, 1, 4)],
    )
    elections = [Election(10, A, 3), Election(20, B, 3), Election(1_900, A, 2), Election(2_100, B, 1)]
    (of_leader,) = facts_of(replace(hung, elections=tuple(elections))).faults
    assert of_leader.next_leader_ms == 1_050
    (unreplaced,) = facts_of(replace(hung, elections=tuple(elections[:2]))).faults
    assert unreplaced.next_leader_ms is None


def test_a_fault_without_an_end_ends_with_healing_and_one_that_was_skipped_says_why() -> None:
    data = round_with(
        Moment(1050, "fault_began", 0, "chase", ("broker 3",)),
        Moment(2000, "fault_skipped", 1, "disk-full", detail="no room to fill"),
        Moment(6000, "healed"),
        faults=[fault(FaultKind.CHASE, 1, 4), fault(FaultKind.DISK_FULL, 2, 1), fault(FaultKind.KILL, 3, 1)],
    )
    chase, full, kill = facts_of(data).faults
    assert chase.span == Span(1050, 6000)
    assert (full.span, full.detail) == (None, "no room to fill")
    assert (kill.span, kill.kind, kill.detail) == (None, "kill", "it was never begun")


def test_the_figures_of_a_partition_and_of_clients() -> None:
    facts = facts_of(round_with(Moment(6000, "healed"), Moment(6400, "settled", took_ms=400)))
    (partition,) = facts.partitions
    assert (partition.acked, partition.gap, partition.least_isr) == (6, Span(4012, 9000), 2)
    assert partition.whole_after_ms == 0
    assert facts.settled_after_ms == 400
    assert facts.senders[0].by_outcome == dict.fromkeys(SendOutcome, 0) | {SendOutcome.ACKED: 6}
    assert sum(rate.per_s for rate in facts.received) == 4
    assert facts.verdict is Verdict.GOOD


def test_a_round_of_which_nothing_is_known_has_facts_too() -> None:
    facts = facts_of(RoundData("nothing"))
    assert (facts.verdict, facts.span, facts.places, facts.faults) == (Verdict.UNFINISHED, Span(0, 0), (), ())
