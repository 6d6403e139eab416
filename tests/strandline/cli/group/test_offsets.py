"""The arguments of a reset, and its JSON (USERS 22)."""

from __future__ import annotations

import click
import pytest

from strandline.cli.group.offsets import ChosenType, TargetType, plan_json
from strandline.client.resets.plan import Bounds, Chosen, Shift, Since, Target, plan
from strandline.ids import TopicPartition

A = TopicPartition("t", 0)


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
        ("1970-01-02T00:00+00:00", Since(86_400_000)),
    ],
)
def test_a_target_is_a_name_an_offset_a_shift_or_a_time(text: str, meant: Target) -> None:
    """docs/use/cli.md: a sign makes a shift of a number."""
    assert target(text) == meant
    assert TargetType().convert(meant, None, None) == meant, "click converts a converted value again"


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
