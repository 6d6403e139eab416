"""A look at ZooKeeper that concurrent requests share: each waits for one that began after it came."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass, field

from strandline.errors import CoordinationError
from strandline.ports import ConnectionLost


@dataclass(slots=True)
class _Look:
    number: int
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    complete: bool = False
    """False until it has ended, and if its request was cancelled."""
    error: CoordinationError | None = None


class SharedLook:
    """One look is under way at a time, for all names that were asked for before it began. Requests that come
    meanwhile share the next one: their clients may know of changes that this one does not see."""

    def __init__(self, look: Callable[[Set[str]], Awaitable[None]]) -> None:
        """`look` raises CoordinationError if ZooKeeper does not answer."""
        self._look = look
        self._wanted: set[str] = set()
        """Names for the next look."""
        self._under_way: _Look | None = None
        self._begun = 0

    async def at(self, names: Set[str]) -> None:
        """Returns after a look at these names that began after this call. Raises CoordinationError."""
        begun = self._begun
        self._wanted |= names
        while (shared := self._under_way) is not None:
            await shared.ended.wait()
            if shared.number > begun and shared.complete:
                if shared.error is not None:
                    raise ConnectionLost(str(shared.error)) from shared.error
                return
            self._wanted |= names
        await self._begin()

    async def _begin(self) -> None:
        names, self._wanted = self._wanted, set()
        self._begun += 1
        look = self._under_way = _Look(self._begun)
        try:
            await self._look(names)
            look.complete = True
        except CoordinationError as error:
            look.complete, look.error = True, error
            raise
        finally:
            self._under_way = None
            look.ended.set()
