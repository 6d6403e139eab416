"""Tells the coordinator what became of partitions: in order, and for as long as it costs nobody anything."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final

from consumer.group.coordinator import Coordinator
from strandline.client.backoff import backoff_s
from strandline.client.group_wire import REPORT_OWNERSHIP
from strandline.config import ConsumerSettings
from strandline.errors import StrandlineError
from strandline.groups import ReportOwnership
from strandline.ports import Clock

logger = logging.getLogger(__name__)

REPORTS_MAX: Final = 1_000
"""Of those that wait; beyond it the oldest are dropped."""
TRIES_MAX: Final = 3


class Reports:
    """`run` is its task."""

    def __init__(self, coordinator: Coordinator, settings: ConsumerSettings, clock: Clock) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._clock = clock
        self._waiting: deque[ReportOwnership] = deque(maxlen=REPORTS_MAX)
        self._put = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def put(self, report: ReportOwnership) -> None:
        self._waiting.append(report)
        self._empty.clear()
        self._put.set()

    async def flushed(self) -> None:
        """Return once all that was put is sent, or was tried often enough."""
        await self._empty.wait()

    async def run(self) -> None:
        while True:
            await self._put.wait()
            while self._waiting:
                await self._send(self._waiting.popleft())
            self._put.clear()
            self._empty.set()

    async def _send(self, report: ReportOwnership) -> None:
        for attempt in range(1, TRIES_MAX + 1):
            try:
                await self._coordinator.call(REPORT_OWNERSHIP, report)
            except StrandlineError as error:
                if attempt == TRIES_MAX or not error.retriable:
                    logger.info("group %s: what became of partitions is not told: %s", report.group, error)
                    return
                await self._clock.sleep(backoff_s(self._settings, attempt))
            else:
                return
