"""The way of a record, from the lines of several brokers."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from strandline.broker.core.record_steps import EVENT, RecordStep, Step
from strandline.cli.cluster.record_way import detail, way

FIRST = RecordStep(Step.RECEIVED, "tides", 0, 100, 1, 7, acks=-1)
SECOND = "2026-01-01T10:00:05"
BEGAN_US = round(datetime(2026, 1, 1, 10, 0, 5, tzinfo=UTC).timestamp()) * 1_000_000


def line(step: RecordStep, us: int = 0) -> str:
    """As a broker writes it; `us`: microseconds after `SECOND`."""
    return json.dumps({**step.fields(), "event": EVENT, "timestamp": f"{SECOND}.{us:06}Z"})


def test_steps_of_one_record_are_in_order_of_time_and_then_of_their_kind() -> None:
    appended = replace(FIRST, step=Step.APPENDED, acks=None)
    sent = replace(appended, step=Step.SENT, follower=2)
    stored = replace(appended, step=Step.STORED, broker=2)
    others = [replace(FIRST, topic="winds"), replace(FIRST, partition=1), replace(FIRST, offset=200)]
    lines = [line(stored, 900), line(sent, 40), *map(line, others), line(appended), line(FIRST)]
    found = way(lines, "tides", 0, 100)
    assert [each.step for each in found] == [FIRST, appended, sent, stored]
    assert [each.at_us - BEGAN_US for each in found] == [0, 0, 40, 900]
    assert [detail(each) for each in (FIRST, appended, sent)] == ["acks all", "", "to broker 2"]


def test_a_step_that_was_before_its_line_is_there_in_time() -> None:
    (seen,) = way([line(replace(FIRST, earlier_us=150), 200)], "tides", 0)
    assert seen.at_us == BEGAN_US + 50


def test_without_an_offset_it_is_the_last_record() -> None:
    last = replace(FIRST, offset=300)
    (seen,) = way([line(replace(FIRST, offset=200)), line(last), line(FIRST)], "tides", 0)
    assert seen.step == last


@pytest.mark.parametrize("before", ["", "broker-1-1  | ", "[pod/broker-1/broker] "])
def test_a_name_before_the_line_is_passed_over(before: str) -> None:
    assert way([before + line(FIRST) + "\n"], "tides", 0) == [(BEGAN_US, FIRST)]


@pytest.mark.parametrize(
    "other",
    [
        "",
        EVENT,
        f"{EVENT} {{",
        json.dumps({"event": EVENT}),
        json.dumps({**FIRST.fields(), "event": EVENT}),
        line(FIRST).replace("2026", "year"),
        line(FIRST).replace('"received"', '"x"'),
        line(FIRST).replace("100", '"100"'),
        line(FIRST).replace('"acks": -1', '"error": 5'),
        line(FIRST).replace('"acks": -1', '"earlier_us": [1]'),
        json.dumps([EVENT]),
    ],
)
def test_lines_that_are_no_steps_are_passed_over(other: str) -> None:
    assert way([other, line(FIRST)], "tides", 0) == [(BEGAN_US, FIRST)]
