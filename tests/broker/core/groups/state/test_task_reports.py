"""The members' task reports: passed on in order, from members only, within bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.broker.core.groups.effects import EventKind
from strandline.config.limits import GROUP_ID_LENGTH_MAX
from strandline.errors import IllegalGeneration, InvalidGroupId, InvalidRequest, UnknownMemberId
from strandline.vocabulary.groups import (
    OwnershipChange,
    OwnershipKind,
    ReportTasks,
    TaskChange,
    TaskChangeKind,
)
from tests.broker.core.groups.support.stage import GROUP, LIMITS, Stage, partition


def change(
    kind: TaskChangeKind = TaskChangeKind.PROGRESS, task: str = "counts-3", at: int = 77
) -> TaskChange:
    return TaskChange(kind, task, at)


def report(stage: Stage, member: str, generation: int, *changes: TaskChange, group: str = GROUP) -> str:
    request = ReportTasks(group, member, generation, changes)
    return stage.ask(request)


def test_task_changes_are_published_in_the_members_order_with_their_figures() -> None:
    """Not by its clock: that may have been set back in between."""
    stage = Stage()
    generation = stage.stable("a")
    stage.events.clear()
    progress = TaskChange(TaskChangeKind.PROGRESS, "counts-3", 10, "slow\ndisk", 700, 12.5, 56_000)
    token = report(stage, "a", generation, change(TaskChangeKind.LEARNING, at=20), progress)
    assert stage.answers[token] is None
    first, second = stage.events
    assert (first.kind, first.task, first.at_ms) == (EventKind.TASK_LEARNING, "counts-3", 20)
    assert (first.lag, first.records_per_s, first.remaining_ms) == (-1, -1, -1)
    assert (second.kind, second.at_ms, second.reason) == (EventKind.TASK_PROGRESS, 10, "slow disk")
    assert (second.group, second.member, second.generation) == (GROUP, "a", generation)
    assert (second.lag, second.records_per_s, second.remaining_ms) == (700, 12.5, 56_000)


@pytest.mark.parametrize("kind", TaskChangeKind)
def test_every_kind_has_an_event_of_its_name(kind: TaskChangeKind) -> None:
    stage = Stage()
    report(stage, "a", stage.stable("a"), change(kind))
    assert stage.events[-1].kind.value == f"task_{kind.value}"


def test_tasks_are_not_counted_as_owned_partitions() -> None:
    stage = Stage()
    generation = stage.stable("a")
    stage.report("a", generation, OwnershipChange(OwnershipKind.ASSIGNED, (partition(0),), 1, generation))
    report(stage, "a", generation, change(TaskChangeKind.CLOSED, "t-0"))
    assert stage.describe().members[0].owned == (partition(0),)


def test_a_member_may_report_of_an_earlier_generation_but_not_of_one_to_come() -> None:
    """It did it then; the report was only slow."""
    stage = Stage()
    generation = stage.stable("a", "b")
    assert stage.answers[report(stage, "b", generation - 1, change())] is None
    assert stage.events[-1].generation == generation - 1
    published = len(stage.events)
    assert stage.answer(report(stage, "b", generation + 1, change()), IllegalGeneration)
    assert len(stage.events) == published


def test_a_former_member_cannot_report_tasks() -> None:
    stage = Stage()
    generation = stage.stable("a", "b")
    stage.leave("b")
    published = len(stage.events)
    assert stage.answer(report(stage, "b", generation, change()), UnknownMemberId)
    assert stage.answer(report(stage, "a", 1, change(), group="nobody"), UnknownMemberId)
    assert stage.answer(report(stage, "a", 1, change(), group=""), InvalidGroupId)
    assert len(stage.events) == published


def test_a_report_over_its_bound_is_refused_as_a_whole() -> None:
    stage = Stage(replace(LIMITS, task_changes_per_report_max=2))
    generation = stage.stable("a")
    assert stage.answers[report(stage, "a", generation, change(), change())] is None
    published = len(stage.events)
    token = report(stage, "a", generation, change(), change(), change())
    assert stage.answer(token, InvalidRequest).limit == 2
    assert len(stage.events) == published


@pytest.mark.parametrize("task", ["", "t" * (GROUP_ID_LENGTH_MAX + 1), "t\x1b[2J-0"])
def test_an_invalid_task_name_refuses_the_whole_report(task: str) -> None:
    """Cut short it would be another task; with control characters it would write on a terminal."""
    stage = Stage()
    generation = stage.stable("a")
    published = len(stage.events)
    token = report(stage, "a", generation, change(task="t" * GROUP_ID_LENGTH_MAX), change(task=task))
    assert stage.answer(token, InvalidRequest).message.startswith("task")
    assert len(stage.events) == published


def test_a_reason_is_cut_rather_than_refused() -> None:
    stage = Stage()
    generation = stage.stable("a")
    report(stage, "a", generation, replace(change(), reason="because " * 100))
    assert len(stage.events[-1].reason) == GROUP_ID_LENGTH_MAX
