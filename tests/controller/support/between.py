"""A session in which something happens right after a read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from strandline.ports import Coordination, Znode

Happens = Callable[[], Awaitable[None]]


class Between:
    """A session. What waits for a path happens once, after the next read of that path."""

    def __init__(self, session: Coordination) -> None:
        self._session = session
        self.after: dict[str, Happens] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)

    async def get(self, path: str) -> Znode:
        found = await self._session.get(path)
        await self._happen(path)
        return found

    async def children(self, path: str) -> list[str]:
        found = await self._session.children(path)
        await self._happen(path)
        return found

    async def _happen(self, path: str) -> None:
        if (happens := self.after.pop(path, None)) is not None:
            await happens()
