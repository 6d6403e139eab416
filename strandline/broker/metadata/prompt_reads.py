"""Reads ZooKeeper for requests of clients, which get an error soon instead of waiting for it to return."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from strandline.ports import ConnectionLost, Coordination, LinkState, SessionEnded, Znode

T = TypeVar("T")


class Unanswered(ConnectionLost):
    """ZooKeeper did not answer in time, though the link stands."""


class PromptReads:
    """The reads of one session. Each raises ConnectionLost if it is not answered within `wait_max_s` seconds
    after it was sent, or cannot be sent now, and SessionEnded without a session.

    `session` returns the broker's present session, None if it has none.
    """

    def __init__(self, session: Callable[[], Coordination | None], wait_max_s: float) -> None:
        self._session = session
        self._wait_max_s = wait_max_s

    def connected(self) -> Coordination:
        """The session. Raises ConnectionLost while its link is down, SessionEnded."""
        session = self._session()
        if session is None:
            raise SessionEnded("this broker has no ZooKeeper session right now")
        if session.state is not LinkState.CONNECTED:
            raise ConnectionLost("ZooKeeper cannot be reached right now")
        return session

    async def soon(self, answer: Awaitable[T]) -> T:
        """The answer. Raises Unanswered if it takes too long."""
        try:
            async with asyncio.timeout(self._wait_max_s):
                return await answer
        except TimeoutError:
            raise Unanswered(f"ZooKeeper did not answer within {self._wait_max_s} s") from None

    async def get(self, path: str) -> Znode:
        """Raises NoNode too."""
        return await self.soon(self.connected().get(path))

    async def children(self, path: str) -> list[str]:
        """Raises NoNode too."""
        return await self.soon(self.connected().children(path))

    async def sync(self) -> None:
        """Later reads see what was committed before."""
        await self.soon(self.connected().sync())
