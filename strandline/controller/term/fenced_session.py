"""The ZooKeeper session of the active controller. All of its writes succeed only in its epoch.

Every write is a `multi` that begins with a check of `/controller_epoch`: a controller that was deposed
without noticing cannot complete a write (CORRECTNESS E5). If the connection is lost during a write, its
outcome is unknown, so the caller passes a function that finds it out (CORRECTNESS E9).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from strandline.adapters.zookeeper import znodes
from strandline.errors import NotController
from strandline.ports import Check, ConnectionLost, Coordination, MultiFailed, Operation, Znode

T = TypeVar("T")

Happened = Callable[[], Awaitable[bool]]
"""Looks in ZooKeeper whether a write was carried out."""


class Deposed(NotController):
    """Another controller has a later epoch. This write had no effect."""


class FencedSession:
    """A session of one controller epoch. Reads are repeated if the connection is lost; every call raises
    SessionEnded after the end."""

    def __init__(self, session: Coordination, epoch: int) -> None:
        self._session = session
        self._fence = Check(znodes.CONTROLLER_EPOCH, epoch)
        self.epoch = epoch
        self.deposed = asyncio.Event()
        """Set when a write failed because of a later epoch."""

    @property
    def session_id(self) -> int:
        return self._session.session_id

    # --- reads ---------------------------------------------------------------------------------

    async def get(self, path: str) -> Znode:
        """Raises NoNode."""
        return await until_answered(lambda: self._session.get(path))

    async def exists(self, path: str) -> Znode | None:
        return await until_answered(lambda: self._session.exists(path))

    async def is_absent(self, path: str) -> bool:
        """True if there is no such znode. It is the `happened` of a write that deletes one."""
        return await self.exists(path) is None

    async def children(self, path: str) -> list[str]:
        """Raises NoNode."""
        return await until_answered(lambda: self._session.children(path))

    async def sync(self) -> None:
        """Later reads see at least the state of this moment (CORRECTNESS E8)."""
        await until_answered(self._session.sync)

    # --- writes --------------------------------------------------------------------------------

    async def ensure_path(self, path: str) -> None:
        """Creates a persistent path that is never removed. It decides nothing, so it needs no fence."""
        await until_answered(lambda: self._session.ensure_path(path))

    async def write(self, operations: Sequence[Operation], happened: Happened) -> None:
        """Writes all or nothing, and only in this epoch. `happened` tells a lost answer from a lost write.

        Raises Deposed, and MultiFailed whose index counts `operations`.
        """
        in_doubt = False
        while True:
            try:
                await self._session.multi([self._fence, *operations])
                return
            except ConnectionLost:
                in_doubt = True
            except MultiFailed as failed:
                if failed.index == 0:
                    self.deposed.set()
                    raise Deposed(f"the controller epoch {self.epoch} is over: {failed.cause}") from failed
                # After a lost connection, this write itself may have succeeded and cause the refusal.
                if not in_doubt or not await self._looks(happened):
                    raise MultiFailed(failed.index - 1, failed.cause) from failed
                return
            if await self._looks(happened):
                return

    async def write_once(self, operations: Sequence[Operation]) -> bool:
        """Writes as `write` does, but only once. Returns False if the outcome is unknown.

        For writes that cannot be looked up later and must not happen twice. A lost one is requested again.
        """
        try:
            await self._session.multi([self._fence, *operations])
        except ConnectionLost:
            return False
        except MultiFailed as failed:
            if failed.index == 0:
                self.deposed.set()
                raise Deposed(f"the controller epoch {self.epoch} is over: {failed.cause}") from failed
            raise MultiFailed(failed.index - 1, failed.cause) from failed
        return True

    async def _looks(self, happened: Happened) -> bool:
        await self.sync()
        return await happened()


async def until_answered(read: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await read()
        except ConnectionLost:
            continue  # the next attempt waits for a connection, or finds that the session is over
