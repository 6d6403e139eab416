"""Reports changes of partitions and tasks to the coordinator, in order and without delaying the member."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import replace
from typing import Final

from strandline.adapters.codecs.groups import REPORT_OWNERSHIP, REPORT_TASKS
from strandline.client.coordinator import Coordinator
from strandline.client.retry import retry
from strandline.config.consumer import ConsumerSettings
from strandline.config.limits import TASK_CHANGES_SENT_MAX
from strandline.errors import StrandlineError
from strandline.ports import Clock
from strandline.vocabulary.groups import ReportOwnership, ReportTasks

logger = logging.getLogger(__name__)

REPORTS_MAX: Final = 1_000
"""Reports that wait at most; beyond this the oldest are dropped."""
TRIES_MAX: Final = 3


class Reports:
    """A queue of reports. `run` is its task."""

    def __init__(self, coordinator: Coordinator, settings: ConsumerSettings, clock: Clock) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._clock = clock
        self._waiting: deque[ReportOwnership | ReportTasks] = deque(maxlen=REPORTS_MAX)
        self._put = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def put(self, report: ReportOwnership | ReportTasks) -> None:
        self._waiting.append(report)
        self._empty.clear()
        self._put.set()

    def put_tasks(self, report: ReportTasks) -> None:
        """`put` a report of tasks. Reports of tasks in a row are merged: while the coordinator is away, the
        progress of tasks must not push out changes of partitions."""
        changes = report.changes
        last = self._waiting[-1] if self._waiting else None
        if isinstance(last, ReportTasks) and replace(last, changes=changes) == report:
            self._waiting.pop()
            changes = last.changes + changes
        for start in range(0, len(changes), TASK_CHANGES_SENT_MAX):
            self.put(replace(report, changes=changes[start : start + TASK_CHANGES_SENT_MAX]))

    async def flushed(self, limit_s: float) -> bool:
        """Wait until every report was sent, or given up. False after `limit_s` seconds."""
        try:
            async with asyncio.timeout(limit_s):
                await self._empty.wait()
        except TimeoutError:
            logger.info("group %s: %d reports still wait", self._coordinator.name, len(self._waiting))
            return False
        return True

    async def run(self) -> None:
        while True:
            await self._put.wait()
            while self._waiting:
                await self._send(self._waiting.popleft())
            self._put.clear()
            self._empty.set()

    async def _send(self, report: ReportOwnership | ReportTasks) -> None:
        what = "tasks" if isinstance(report, ReportTasks) else "partitions"
        try:
            await retry(
                lambda: self._call(report),
                f"group {report.group}: a report of {what} waits",
                settings=self._settings,
                clock=self._clock,
                tries_max=TRIES_MAX,
            )
        except StrandlineError as error:
            logger.info("group %s: a report of %s is lost: %s", report.group, what, error)

    async def _call(self, report: ReportOwnership | ReportTasks) -> None:
        if isinstance(report, ReportTasks):
            await self._coordinator.call(REPORT_TASKS, report)
        else:
            await self._coordinator.call(REPORT_OWNERSHIP, report)
