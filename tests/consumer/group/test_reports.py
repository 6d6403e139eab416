"""A member's reports to its coordinator: in the order of events, merged, and for a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from strandline.config.limits import TASK_CHANGES_SENT_MAX
from strandline.consumer.group.reports import REPORTS_MAX, TRIES_MAX, Reports
from strandline.errors import CoordinatorNotAvailable, StrandlineError, UnknownMemberId
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import (
    OwnershipChange,
    OwnershipKind,
    ReportOwnership,
    ReportTasks,
    TaskChange,
    TaskChangeKind,
)
from tests.consumer.brokers import Parts

TOOK = ReportOwnership(
    "g", "m", 1, (OwnershipChange(OwnershipKind.ASSIGNED, (TopicPartition("t", 0),), 1, 1),)
)


def tasks(*numbers: int, member: str = "m", generation: int = 1) -> ReportTasks:
    changes = (TaskChange(TaskChangeKind.PROGRESS, f"t-{number}", number) for number in numbers)
    return ReportTasks("g", member, generation, tuple(changes))


class Coordinator(Parts):
    """A coordinator that takes reports, and first refuses those that the script names."""

    def __init__(self, *script: StrandlineError) -> None:
        super().__init__()
        self.taken: list[Any] = []
        self._script = list(script)
        self.brokers.answers["ReportOwnership"] = self.brokers.answers["ReportTasks"] = self._answer
        self.reports = Reports(self.coordinator, self.settings, self.clock)

    def _answer(self, request: Any) -> Any:
        self.taken.append(request)
        return self._script.pop(0) if self._script else None

    @asynccontextmanager
    async def telling(self) -> AsyncIterator[None]:
        async with self, asyncio.TaskGroup() as group:
            task = group.create_task(self.reports.run())
            async with asyncio.timeout(10):
                yield
            task.cancel()


async def test_task_reports_follow_partition_reports() -> None:
    """A task runs because its partitions were assigned: the order of the events must show that."""
    stage = Coordinator()
    for report in (tasks(1), TOOK):
        stage.reports.put(report)
    stage.reports.put_tasks(tasks(2))
    async with stage.telling():
        await stage.reports.flushed(60)
    assert stage.taken == [tasks(1), TOOK, tasks(2)]


async def test_consecutive_changes_share_a_report_up_to_its_bound() -> None:
    stage = Coordinator()
    for number in range(2 * TASK_CHANGES_SENT_MAX + 1):
        stage.reports.put_tasks(tasks(number))
    async with stage.telling():
        await stage.reports.flushed(60)
    assert [len(report.changes) for report in stage.taken] == [TASK_CHANGES_SENT_MAX] * 2 + [1]
    said = [change.at_ms for report in stage.taken for change in report.changes]
    assert said == list(range(2 * TASK_CHANGES_SENT_MAX + 1))


async def test_a_report_has_one_member_and_one_generation() -> None:
    """The coordinator fences the whole of it by these."""
    stage = Coordinator()
    said = [tasks(1), tasks(2, generation=2), tasks(3, generation=2, member="n"), tasks(4)]
    for report in said:
        stage.reports.put_tasks(report)
    async with stage.telling():
        await stage.reports.flushed(60)
    assert stage.taken == said


async def test_progress_does_not_displace_partition_reports() -> None:
    """While the coordinator is away, a bounded number of reports waits, and the oldest are dropped."""
    stage = Coordinator()
    stage.reports.put(TOOK)
    for number in range(2 * REPORTS_MAX):
        stage.reports.put_tasks(tasks(number))
    async with stage.telling():
        await stage.reports.flushed(60)
    assert stage.taken[0] == TOOK


async def test_a_report_is_tried_again_and_then_given_up() -> None:
    """Best effort: later reports are sent nevertheless."""
    away = CoordinatorNotAvailable("no")
    stage = Coordinator(away, *[away] * TRIES_MAX, UnknownMemberId("who?"))
    async with stage.telling():
        stage.reports.put_tasks(tasks(1))
        await stage.reports.flushed(60)
        assert stage.taken == [tasks(1)] * TRIES_MAX
        stage.reports.put_tasks(tasks(2))
        await stage.reports.flushed(60)
        stage.reports.put_tasks(tasks(3))
        await stage.reports.flushed(60)
    assert stage.taken[TRIES_MAX:] == [tasks(2)] * 2 + [tasks(3)]
