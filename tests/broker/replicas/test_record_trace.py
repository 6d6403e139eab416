"""Which records are traced, and that their number has a bound."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from strandline.broker.core.record_steps import EVENT, RecordStep, Step
from strandline.broker.core.replication.produce_ticket import Produced, ProduceOutcome
from strandline.broker.replicas.record_trace import (
    LINES_PER_S_MAX,
    MOVE_RECORDS_MAX,
    RecordTraces,
    chosen,
)
from strandline.errors import RequestTimedOut
from strandline.ids import BrokerId, TopicPartition
from tests.hand_clock import HandClock

NAME = TopicPartition("tides", 0)
OFFSET = st.integers(0, 10_000)


@given(OFFSET, OFFSET, st.integers(1, 500))
def test_the_first_multiples_that_an_end_passes_are_chosen(begin: int, end: int, every: int) -> None:
    all_of_them = [offset for offset in range(begin, end) if offset % every == 0]
    assert list(chosen(begin, end, every)) == all_of_them[:MOVE_RECORDS_MAX]


@given(OFFSET, st.integers(1, 9), st.integers(1, 9), st.integers(1, 50))
def test_two_moves_choose_what_one_would(begin: int, first: int, second: int, every: int) -> None:
    """So a record takes a step once, however the batches are cut at a broker."""
    middle, end = begin + first, begin + first + second
    both = [*chosen(begin, middle, every), *chosen(middle, end, every)]
    assert both[:MOVE_RECORDS_MAX] == list(chosen(begin, end, every))


def test_without_the_setting_there_is_no_trace() -> None:
    assert RecordTraces(BrokerId(1), 0, HandClock()).of(NAME, lambda: 3) is None


@pytest.mark.parametrize("outcome", [Produced(99, 0), RequestTimedOut("late")])
def test_a_request_has_its_outcome_once_and_says_so(outcome: ProduceOutcome) -> None:
    clock, outcomes = HandClock(), list[ProduceOutcome]()
    trace = RecordTraces(BrokerId(1), 100, clock).of(NAME, lambda: 3)
    assert trace is not None
    with capture_logs() as lines:
        received = trace.now()
        assert trace.produced(101, 105, received, -1, outcomes.append) == outcomes.append, "none is chosen"
        clock.now_s += 0.002
        trace.produced(99, 105, received, -1, outcomes.append)(outcome)
    assert outcomes == [outcome]
    seen = [RecordStep.load(line) for line in lines]
    assert [(each.step, each.offset, each.earlier_us) for each in seen] == [
        (Step.RECEIVED, 100, 2_000),
        (Step.APPENDED, 100, None),
        (Step.ANSWERED, 100, None),
    ]
    assert (seen[0].acks, seen[0].epoch, seen[0].broker) == (-1, 3, 1)
    assert seen[-1].error == (outcome.message if isinstance(outcome, RequestTimedOut) else None)


def test_lines_of_a_second_have_a_bound_and_what_is_left_out_is_counted() -> None:
    clock = HandClock()
    trace = RecordTraces(BrokerId(1), 1, clock).of(NAME, lambda: 3)
    assert trace is not None
    with capture_logs() as lines:
        for offset in range(LINES_PER_S_MAX + 7):
            trace.passed(Step.STORED, offset, offset + 1)
        clock.now_s += 1.0
        trace.passed(Step.STORED, 0, 1)
    said: list[dict[str, Any]] = [dict(line) for line in lines if line["event"] != EVENT]
    assert len(lines) == LINES_PER_S_MAX + 2
    assert [each["count"] for each in said] == [7]
