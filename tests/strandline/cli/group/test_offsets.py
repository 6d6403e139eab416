"""Where a reset goes: reading the target and the partitions, and the plan within the logs (USERS 22)."""

from __future__ import annotations

from datetime import UTC, datetime

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.cli.group.offsets import (
    Bounds,
    Chosen,
    ChosenType,
    Shift,
    Target,
    TargetType,
    chosen_partitions,
    plan,
    plan_json,
)
from strandline.errors import InvalidRequest, UnknownTopicOrPartition
from strandline.ids import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def target(text: str) -> Target:
    return TargetType().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("17", 17),
        ("+17", Shift(17)),
        ("-17", Shift(-17)),
        ("-0", Shift(0)),
        ("2026-11-20T14:30+00:00", datetime(2026, 11, 20, 14, 30, tzinfo=UTC)),
    ],
)
def test_a_target_is_a_name_an_offset_a_shift_or_a_time(text: str, meant: Target) -> None:
    """docs/use/cli.md: a sign makes a shift of a number."""
    assert target(text) == meant


@pytest.mark.parametrize("text", ["", "+", "-", "+x", "--5", "+9223372036854775808", "soon", "-2026-11-20"])
def test_a_wrong_target_is_wrong_usage(text: str) -> None:
    """Exit status 2, before any request is sent."""
    with pytest.raises(click.BadParameter):
        target(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("t", Chosen("t", None)),
        ("t:3", Chosen("t", (3,))),
        ("t:0,2,5-7,6", Chosen("t", (0, 2, 5, 6, 7))),
    ],
)
def test_partitions_of_a_topic_are_listed_after_a_colon(text: str, meant: Chosen) -> None:
    assert ChosenType().convert(text, None, None) == meant


@pytest.mark.parametrize("text", ["", ":1", "t:", "t:a", "t:1-", "t:-1", "t:3-1", "t:1,,2", "t:0-99999999"])
def test_wrong_partitions_are_wrong_usage(text: str) -> None:
    """A range is spelled out in memory, so it has an end."""
    with pytest.raises(click.BadParameter):
        ChosenType().convert(text, None, None)


def test_partitions_that_a_topic_does_not_have_are_named() -> None:
    assert chosen_partitions([Chosen("t", None), Chosen("t", (1,))], {"t": [0, 1]}) == [A, B]
    with pytest.raises(UnknownTopicOrPartition, match="partitions 0 to 1, there is no 7"):
        chosen_partitions([Chosen("t", (1, 7))], {"t": [0, 1]})


@pytest.mark.parametrize(
    ("to", "new", "note"),
    [
        ("earliest", 10, ""),
        ("latest", 90, ""),
        (50, 50, ""),
        (9, 10, "9 lies outside: the log starts at 10"),
        (91, 90, "91 lies outside: the log ends at 90"),
        (Shift(5), 45, ""),
        (Shift(-5), 35, ""),
        (Shift(-100), 10, "-60 lies outside: the log starts at 10"),
        (Shift(100), 90, "140 lies outside: the log ends at 90"),
    ],
)
def test_a_partition_goes_where_it_is_sent_within_its_log(to: Target, new: int, note: str) -> None:
    """An offset outside the log would be thrown away by the next consumer, for its own policy."""
    (reset,) = plan(to, {A: 40}, {A: Bounds(10, 90)})
    assert (reset.new, reset.note) == (new, note)
    assert reset.change == new - 40
    assert reset.lag == 90 - new


def test_a_time_is_the_first_record_not_older_and_the_end_where_none_is() -> None:
    when = datetime(2026, 11, 20, tzinfo=UTC)
    found, none = plan(when, {}, {A: Bounds(10, 90, at_time=33), B: Bounds(0, 7)})
    assert (found.new, found.note) == (33, "")
    assert (none.new, none.note) == (7, "no record is that young")
    assert found.change is None


def test_nothing_is_shifted_from_nowhere() -> None:
    """All or none: the partitions without a commit are named, and the others are not touched either."""
    with pytest.raises(InvalidRequest, match="nothing is committed for t-1"):
        plan(Shift(1), {A: 5}, {A: Bounds(0, 9), B: Bounds(0, 9)})


@given(
    to=st.one_of(
        st.sampled_from(["earliest", "latest"]), st.integers(0, 2**63 - 1), st.builds(Shift, st.integers())
    ),
    start=st.integers(0, 1000),
    size=st.integers(0, 1000),
    committed=st.integers(0, 3000),
)
def test_no_plan_leaves_the_log(to: Target, start: int, size: int, committed: int) -> None:
    """Bounds are clamped, and what was clamped says so."""
    (reset,) = plan(to, {A: committed}, {A: Bounds(start, start + size)})
    assert start <= reset.new <= start + size
    wanted = {"earliest": start, "latest": start + size}.get(str(to))
    if isinstance(to, Shift):
        wanted = committed + to.records
    elif isinstance(to, int):
        wanted = to
    assert bool(reset.note) == (reset.new != wanted)


def test_the_json_shape_is_the_documented_one() -> None:
    """docs/use/cli.md: the shape of `group reset-offsets`."""
    assert plan_json("g", plan(95, {A: 40}, {A: Bounds(10, 90)}), executed=False) == {
        "group": "g",
        "executed": False,
        "partitions": [
            {
                "topic": "t",
                "partition": 0,
                "committed": 40,
                "new": 90,
                "change": 50,
                "start": 10,
                "end": 90,
                "lag": 0,
                "note": "95 lies outside: the log ends at 90",
            }
        ],
    }
