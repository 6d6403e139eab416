"""Each check finds its own fault and no other; nothing is found where the log keeps its promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.auditing import checks
from strandline.auditing.checks import CHECKS, Check
from strandline.auditing.history import (
    Acked,
    Assigned,
    Failed,
    History,
    Received,
    Sent,
    Unassigned,
    Watermark,
)
from strandline.auditing.reference import Logged, Span, findings
from strandline.errors import Outcome
from tests.strandline.auditing.generated_runs import FinishedRun, sound

TOPIC = "orders"


def judged(finished_run: FinishedRun) -> list[str]:
    """The findings as text, which a failed comparison shows."""
    return [
        f"{each.check} {each.partition}:{each.offset} {each.detail}" for each in findings_of(finished_run)
    ]


def findings_of(finished_run: FinishedRun) -> list[checks.Finding]:
    return findings(finished_run.histories, finished_run.log, finished_run.spans)


def base() -> FinishedRun:
    """Eight records of one producer in a partition, of which retention left offsets 2 to 7; one
    reader that read all of it, and one that was given the partition twice."""
    values = [b"v%d" % number for number in range(8)]
    producer = History("producer")
    for number, value in enumerate(values):
        producer.events += [
            Sent(2 * number, TOPIC, number, value),
            Acked(2 * number + 1, TOPIC, number, 0, number),
        ]
    reader = History("reader", [Assigned(0, TOPIC, (0,))])
    reader.events += [Received(1 + offset, TOPIC, 0, offset, value) for offset, value in enumerate(values)]
    reader.events.append(Watermark(9, TOPIC, 0, 8, 8))
    member = History("member", [Assigned(0, TOPIC, (0,))])
    member.events += [Received(1 + offset, TOPIC, 0, offset, values[offset]) for offset in range(4)]
    member.events += [Unassigned(5, TOPIC, (0,)), Assigned(6, TOPIC, (0,))]
    member.events += [Received(7 + offset, TOPIC, 0, offset, values[offset]) for offset in range(3, 8)]
    log = [Logged(TOPIC, 0, offset, values[offset]) for offset in range(2, 8)]
    return FinishedRun([producer, reader, member], log, {(TOPIC, 0): Span(2, 8)})


# --- faults -----------------------------------------------------------------------------------


def _gone(finished_run: FinishedRun) -> None:
    del finished_run.log[3]


def _gone_from_the_end(finished_run: FinishedRun) -> None:
    """It was never read, so that only the acknowledgement knows of it."""
    finished_run.histories[0].events += [Sent(20, TOPIC, 8, b"v8"), Acked(21, TOPIC, 8, 0, 8)]


def _gone_with_its_partition(finished_run: FinishedRun) -> None:
    finished_run.histories[0].events += [Sent(20, TOPIC, 8, b"v8"), Acked(21, TOPIC, 8, 5, 0)]


def _gone_without_a_trace(finished_run: FinishedRun) -> None:
    finished_run.spans[TOPIC, 1] = Span(0, 0)
    finished_run.histories[0].events += [Sent(20, TOPIC, 8, b"v8"), Acked(21, TOPIC, 8, 1, -1)]


def _twice(finished_run: FinishedRun) -> None:
    finished_run.log.append(Logged(TOPIC, 0, 8, b"v4"))
    finished_run.spans[TOPIC, 0] = Span(2, 9)


def _twice_in_two_partitions(finished_run: FinishedRun) -> None:
    finished_run.log.append(Logged(TOPIC, 1, 0, b"v4"))
    finished_run.spans[TOPIC, 1] = Span(0, 1)


def _acknowledged_out_of_order(finished_run: FinishedRun) -> None:
    """The producer had sent them the other way round."""
    events = finished_run.histories[0].events
    events[8:10] = [Sent(8, TOPIC, 4, b"v5"), Acked(9, TOPIC, 4, 0, 5)]
    events[10:12] = [Sent(10, TOPIC, 5, b"v4"), Acked(11, TOPIC, 5, 0, 4)]


def _given_twice(finished_run: FinishedRun) -> None:
    events = finished_run.histories[1].events
    events.insert(4, events[3])


def _begun_anew_without_being_assigned(finished_run: FinishedRun) -> None:
    del finished_run.histories[2].events[6]


def _skipped(finished_run: FinishedRun) -> None:
    del finished_run.histories[1].events[5]


def _denied(finished_run: FinishedRun) -> None:
    finished_run.histories[0].events[9] = Failed(9, TOPIC, 4, Outcome.RETRIABLE)


def _denied_and_received(finished_run: FinishedRun) -> None:
    """It is below the start of the log, which contradicts no reader there."""
    finished_run.histories[0].events[1] = Failed(1, TOPIC, 0, Outcome.FATAL)
    del finished_run.histories[2].events[1]


def _received_otherwise(finished_run: FinishedRun) -> None:
    events = finished_run.histories[1].events
    events[4] = Received(4, TOPIC, 0, 3, b"other")


def _acknowledged_otherwise(finished_run: FinishedRun) -> None:
    """A record with unknown outcome is where this one was acknowledged; there is no other evidence."""
    finished_run.log[-1] = Logged(TOPIC, 0, 7, b"stranger")
    for history in finished_run.histories[1:]:
        history.events[:] = [
            replace(event, value=b"stranger") if isinstance(event, Received) and event.offset == 7 else event
            for event in history.events
        ]


def _received_in_two_ways(finished_run: FinishedRun) -> None:
    """The log no longer has the offset."""
    finished_run.histories[1].events[1] = Received(1, TOPIC, 0, 0, b"other")


def _told_less_than_received(finished_run: FinishedRun) -> None:
    finished_run.histories[1].events[9] = Watermark(9, TOPIC, 0, 7, 8)


def _told_less_than_before(finished_run: FinishedRun) -> None:
    finished_run.histories[2].events += [Watermark(12, TOPIC, 0, 8, 4), Watermark(13, TOPIC, 0, 6, 4)]


def _received_and_cut(finished_run: FinishedRun) -> None:
    finished_run.histories[1].events.append(Received(10, TOPIC, 0, 8, b"unknown"))


def _sent_twice(finished_run: FinishedRun) -> None:
    finished_run.histories[0].events.append(Sent(20, TOPIC, 8, b"v4"))


FAULTS: list[tuple[Callable[[FinishedRun], None], Check, int | None]] = [
    (_gone, checks.LOST, 5),
    (_gone_from_the_end, checks.LOST, 8),
    (_gone_with_its_partition, checks.LOST, 0),
    (_gone_without_a_trace, checks.LOST, None),
    (_twice, checks.DUPLICATED, 8),
    (_twice_in_two_partitions, checks.DUPLICATED, 0),
    (_acknowledged_out_of_order, checks.REORDERED, 4),
    (_given_twice, checks.REORDERED, 2),
    (_begun_anew_without_being_assigned, checks.REORDERED, 3),
    (_skipped, checks.UNSEEN, 4),
    (_denied, checks.ABORTED, 4),
    (_denied_and_received, checks.ABORTED, 0),
    (_received_otherwise, checks.INCONSISTENT, 3),
    (_acknowledged_otherwise, checks.INCONSISTENT, 7),
    (_received_in_two_ways, checks.INCONSISTENT, 0),
    (_told_less_than_received, checks.WATERMARK, 7),
    (_told_less_than_before, checks.WATERMARK, 6),
    (_received_and_cut, checks.WATERMARK, 8),
    (_sent_twice, checks.AMBIGUOUS, None),
]


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert judged(base()) == []


@pytest.mark.parametrize(
    ("doctor", "check", "offset"), FAULTS, ids=[each[0].__name__.strip("_") for each in FAULTS]
)
def test_a_check_finds_its_fault_and_no_other_does(
    doctor: Callable[[FinishedRun], None], check: Check, offset: int | None
) -> None:
    finished_run = base()
    doctor(finished_run)
    finished_run.renumbered()
    found = findings_of(finished_run)
    assert [(each.check, each.topic, each.offset) for each in found] == [(check.name, TOPIC, offset)]


def test_a_finding_names_the_source_of_each_fact() -> None:
    acknowledged, received = base(), base()
    _acknowledged_otherwise(acknowledged)
    _received_otherwise(received)
    assert [each.detail for each in findings_of(acknowledged) + findings_of(received)] == [
        "record 7 of producer was acknowledged here, and the log has another value here",
        "reader received a value here, and the log has another one",
    ]


def test_each_check_has_a_fault_that_it_finds() -> None:
    assert {check for _, check, _ in FAULTS} == set(CHECKS)


@settings(max_examples=100)
@given(random=st.randoms(use_true_random=False), steps=st.integers(0, 120))
def test_no_run_of_a_sound_log_has_a_finding(random: Random, steps: int) -> None:
    assert judged(sound(random, TOPIC, steps, partitions=3, producers=3, members=3)) == []


def test_an_unanswered_record_may_be_in_the_log_or_not() -> None:
    finished_run = base()
    finished_run.histories[0].events += [Sent(20, TOPIC, 8, b"v8"), Sent(21, TOPIC, 9, b"v9")]
    finished_run.histories[0].events.append(Failed(22, TOPIC, 9, Outcome.UNKNOWN))
    assert judged(finished_run) == []
    finished_run.log += [Logged(TOPIC, 0, 8, b"v9"), Logged(TOPIC, 0, 9, b"v8")]
    finished_run.spans[TOPIC, 0] = Span(2, 10)
    assert judged(finished_run) == []


def test_values_of_unknown_producers_may_repeat() -> None:
    finished_run = base()
    finished_run.log += [Logged(TOPIC, 0, 8, None), Logged(TOPIC, 0, 9, None)]
    finished_run.spans[TOPIC, 0] = Span(2, 10)
    assert judged(finished_run) == []


def test_topics_that_are_not_asked_for_are_not_judged() -> None:
    finished_run = base()
    finished_run.histories[0].events.append(Acked(20, "others", 90, 0, 90))
    assert judged(finished_run) == []
