"""Runs work that waits for the disk once for all who need it at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from strandline.host import Threads

Item = TypeVar("Item")


class Groups(Generic[Item]):
    """Runs `work` in a thread, for one group of items after the other.

    Items that come while the work for a group is under way form the next group. A caller brings one item, so
    a group has at most as many items as there are concurrent callers.
    """

    def __init__(self, work: Callable[[Sequence[Item]], None], threads: Threads) -> None:
        self._work = work
        self._threads = threads
        self._turn = asyncio.Lock()
        self._running = threading.Lock()
        """Held by the thread: the work of a group whose caller was cancelled runs to its end."""
        self._next = _Group[Item]()

    async def join(self, item: Item) -> None:
        """Returns once the work for a group with this item was done, or was given up: the first caller of a
        group runs it, and may be cancelled. Raises what the work raises, at that caller alone."""
        group = self._next
        group.items.append(item)
        if len(group.items) > 1:
            await group.over.wait()
            return
        try:
            async with self._turn:
                await asyncio.sleep(0)  # callers that are about to run join this group
                self._next = _Group()
                await self._threads.run(self._run, group.items)
        finally:
            if self._next is group:
                self._next = _Group()
            group.over.set()

    def _run(self, items: Sequence[Item]) -> None:
        with self._running:
            self._work(items)


class _Group(Generic[Item]):
    def __init__(self) -> None:
        self.items: list[Item] = []
        self.over = asyncio.Event()
