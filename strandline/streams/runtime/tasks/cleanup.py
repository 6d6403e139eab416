"""Removes the stores of tasks that have left this member, once they have not come back for a while."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from strandline.errors import StrandlineError
from strandline.host import Threads
from strandline.ports import Clock
from strandline.streams.core.task import TaskId
from strandline.streams.storage.stores import StateStores

logger = logging.getLogger(__name__)

CHECKS: Final = 10
"""Checks in the time that a store stays: it is removed at most a tenth of it later."""


class StoreCleanup:
    """A store stays for `delay_s` from when it was first seen without its task: after a restart the tasks
    that the member had may come back to it. `is_here` is True for a task that is here in any role."""

    def __init__(
        self,
        stores: StateStores,
        is_here: Callable[[TaskId], bool],
        *,
        delay_s: float,
        clock: Clock,
        threads: Threads,
    ) -> None:
        self._stores = stores
        self._is_here = is_here
        self._delay_s = delay_s
        self._clock = clock
        self._threads = threads
        self._left: dict[TaskId, float] = {}
        """When a store was first seen without its task."""

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            await self._clock.sleep(self._delay_s / CHECKS)
            await self.check()

    async def check(self) -> None:
        """Look once."""
        now = self._clock.monotonic()
        left = [task for task in self._stores.kept() if not self._is_here(task)]
        self._left = {task: self._left.get(task, now) for task in left}
        for task, since in list(self._left.items()):
            if now - since >= self._delay_s and not self._is_here(task):
                try:
                    await self._threads.run(self._stores.remove(task))
                except StrandlineError as error:
                    logger.warning("the store of task %s is not removed: %s", task, error)
                else:
                    logger.info("the store of task %s is removed: it left %.0f s ago", task, now - since)
