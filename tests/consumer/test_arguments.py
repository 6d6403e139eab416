"""An application's arguments are checked at the call, by name and value: never a bare TypeError, and never an
error of the coordinator about something else."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from strandline.client import arguments as client_arguments
from strandline.consumer import arguments
from strandline.consumer.core.assignors.registry import BUILT_IN
from strandline.errors import InvalidRequest, InvalidTopic, SettingsError
from strandline.ids import TopicId, TopicPartition
from strandline.vocabulary.groups import CommittedOffset, TaskChange, TaskChangeKind
from strandline.vocabulary.log_position import LogPosition

A = TopicPartition("t", 0)


NO_TOPICS: list[Any] = [[1], b"tides", 5, "tides", [b"tides"], [None], [], [""], ["\ud800"], [["t"]]]


@pytest.mark.parametrize("given", NO_TOPICS)
def test_invalid_topics_are_refused(given: object) -> None:
    with pytest.raises(InvalidRequest):
        arguments.subscription(given, None)


@pytest.mark.parametrize("name", ["a/b", "x" * 250, ".", "..", "a b", "tïdes"])
def test_a_name_that_no_topic_can_have(name: str) -> None:
    """It would be waited for in vain."""
    with pytest.raises(InvalidTopic, match="name"):
        arguments.subscription(["tides", name], None)


@pytest.mark.parametrize("given", ["(", re.compile(b"t.*"), 3, b"t.*"])
def test_an_invalid_pattern_is_refused(given: object) -> None:
    with pytest.raises(InvalidRequest, match="pattern = "):
        arguments.subscription(None, given)


def test_topics_and_patterns() -> None:
    assert arguments.subscription({"a", "__consumer_offsets"}, None) == (
        frozenset({"a", "__consumer_offsets"}),
        None,
    )
    assert arguments.subscription((name for name in "aba"), None) == (frozenset("ab"), None)
    compiled = re.compile("T.*", re.IGNORECASE)
    assert arguments.subscription(None, compiled) == (frozenset(), compiled)
    assert arguments.subscription(None, "t.*") == (frozenset(), re.compile("t.*"))
    for both in ((None, None), (["a"], "a")):
        with pytest.raises(InvalidRequest, match="topics, or to a pattern"):
            arguments.subscription(*both)


class Nameless:
    name = ""

    def assign(self) -> None: ...


NO_ASSIGNORS: list[Any] = [(), (3,), "sticky", 3, None, (None,), ("foo",), (Nameless(),), ["range"] * 2]


@pytest.mark.parametrize("given", NO_ASSIGNORS)
def test_invalid_assignors_are_refused(given: object) -> None:
    """As any setting, at construction."""
    with pytest.raises(SettingsError, match="assignor"):
        arguments.assignors(given)


def test_assignors_by_name_and_of_ones_own() -> None:
    own = BUILT_IN["range"]
    assert arguments.assignors(["sticky", own]) == [BUILT_IN["sticky"], own]


NOT_COMMITTED: list[Any] = [
    *(5, [A], None, {"tides": 3}, {A: None}, {A: "3"}, {A: True}, {A: 2**63}, {A: -1}, {A: 3.5}),
    *({A: (3, 5)}, {A: (3,)}, {A: (3, "m", 1)}, {A: (True, "m")}, {A: (3, "\ud800")}),
    *({A: CommittedOffset(-1)}, {A: CommittedOffset(4, 2**31)}),
    {A: CommittedOffset(4, "x")},  # type: ignore[arg-type]  # the point
    {A: CommittedOffset(4, metadata=None)},  # type: ignore[arg-type]  # the point
    *({A: CommittedOffset(4, topic_id=TopicId("E" * 32))}, {A: LogPosition(4, TopicId("e"))}),
]


@pytest.mark.parametrize("given", NOT_COMMITTED)
def test_invalid_offsets_to_commit_are_refused(given: object) -> None:
    with pytest.raises(InvalidRequest, match=": give "):
        client_arguments.commits(given)


def test_valid_offsets_to_commit_are_accepted() -> None:
    """Also exactly what `committed` returned: its time is the coordinator's."""
    read_back = CommittedOffset(4, 7, "m", committed_at_ms=1)
    for given in (4, (4, ""), CommittedOffset(4)):
        assert client_arguments.commits({A: given}) == {A: CommittedOffset(4)}
    assert client_arguments.commits({("t", 0): (4, "m")}) == {A: CommittedOffset(4, metadata="m")}
    assert client_arguments.commits({A: read_back}) == {A: CommittedOffset(4, 7, "m")}
    at = LogPosition(4, TopicId("e" * 32), 7)
    assert client_arguments.commits({A: at}) == {A: CommittedOffset(4, 7, topic_id=at.topic_id)}


RUNS = TaskChange(TaskChangeKind.RUNNING, "counts-3", 17)
NO_TASK_CHANGES: list[Any] = [
    *(5, None, "counts-3", [("running", "counts-3", 17)], [None], RUNS),
    *([replace(RUNS, task=task)] for task in ("", "t" * 250, "\ud800")),
    *([replace(RUNS, at_ms=at_ms)] for at_ms in (-1, 2**63)),
    [replace(RUNS, at_ms=1.5)],  # type: ignore[arg-type]  # the point
    [replace(RUNS, task=3)],  # type: ignore[arg-type]  # the point
    [replace(RUNS, reason=None)],  # type: ignore[arg-type]  # the point
    [replace(RUNS, reason="\ud800")],
    [replace(RUNS, lag=1.5)],  # type: ignore[arg-type]  # the point
    [replace(RUNS, remaining_ms=None)],  # type: ignore[arg-type]  # the point
    [replace(RUNS, records_per_s="fast")],  # type: ignore[arg-type]  # the point
    [RUNS, 5],
]


@pytest.mark.parametrize("given", NO_TASK_CHANGES)
def test_invalid_task_changes_are_refused(given: object) -> None:
    """Nothing of it may fail later, behind the application's back."""
    with pytest.raises(InvalidRequest, match=r" = .*: give "):
        arguments.task_changes(given)


def test_changes_of_tasks() -> None:
    """A rate may be the result of a division: a value that is no finite number is left out."""
    changes = [RUNS, replace(RUNS, lag=-5, records_per_s=float("nan"), remaining_ms=10**30)]
    assert arguments.task_changes(iter(changes)) == changes
    assert arguments.task_changes([]) == []


@pytest.mark.parametrize("check", [arguments.processing_s, arguments.timeout_ms])
@pytest.mark.parametrize(
    "given", ["x", None, True, -1, float("nan"), float("inf"), 10**400], ids=lambda given: str(given)[:5]
)
def test_an_invalid_time_is_refused(check: Callable[[Any], float], given: object) -> None:
    with pytest.raises(InvalidRequest, match=r"= .*: give a number from 0 to \d"):
        check(given)
    assert (check(0), check(1.5)) == (0, 1.5)


@pytest.mark.parametrize("given", [0, -1, "3", 1.0, True])
def test_an_invalid_number_of_records_is_refused(given: object) -> None:
    """None at all would be taken for an end of the log."""
    with pytest.raises(InvalidRequest, match=r"max_records = .*: give a whole number from 1"):
        arguments.max_records(given)
    assert (arguments.max_records(None), arguments.max_records(1)) == (None, 1)


@pytest.mark.parametrize("given", [{A: -1}, {A: 2**63}, {A: "now"}, {A: None}, [A], {"t": 1}])
def test_invalid_times_of_records_are_refused(given: object) -> None:
    with pytest.raises(InvalidRequest, match=": give "):
        arguments.timestamps(given)
