"""The ZooKeeper session of the active controller: it writes under its epoch, or not at all.

Every write is a `multi` that begins with a check of `/controller_epoch`: a controller that was deposed
without noticing cannot complete what it began (CORRECTNESS E5). A connection that is lost under a write
leaves its outcome unknown, so the writer says how to find out whether it happened (CORRECTNESS E9).
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
"""Looks into ZooKeeper whether a write was carried out."""


class Deposed(NotController):
    """Another controller has a later epoch. Nothing of this write happened."""


class FencedSession:
    """Reads of it ask again when the connection is lost; everything raises SessionEnded at the end."""

    def __init__(self, session: Coordination, epoch: int) -> None:
        self._session = session
        self._fence = Check(znodes.CONTROLLER_EPOCH, epoch)
        self.epoch = epoch
        self.deposed = asyncio.Event()
        """Set when a write met a later epoch."""

    @property
    def session_id(self) -> int:
        return self._session.session_id

    # --- reads ---------------------------------------------------------------------------------

    async def get(self, path: str) -> Znode:
        """Raises NoNode."""
        return await until_answered(lambda: self._session.get(path))

    async def exists(self, path: str) -> Znode | None:
        return await until_answered(lambda: self._session.exists(path))

    async def children(self, path: str) -> list[str]:
        """Raises NoNode."""
        return await until_answered(lambda: self._session.children(path))

    async def sync(self) -> None:
        """What is read after this is no older than now (CORRECTNESS E8)."""
        await until_answered(self._session.sync)

    # --- writes --------------------------------------------------------------------------------

    async def ensure_path(self, path: str) -> None:
        """A persistent path that is never removed; no decision, so it needs no fence."""
        await until_answered(lambda: self._session.ensure_path(path))

    async def write(self, operations: Sequence[Operation], happened: Happened) -> None:
        """All or nothing, and only in this epoch.

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
                # After a lost connection the refusal may come from this very write having succeeded.
                if not in_doubt or not await self._looks(happened):
                    raise MultiFailed(failed.index - 1, failed.cause) from failed
                return
            if await self._looks(happened):
                return

    async def write_once(self, operations: Sequence[Operation]) -> bool:
        """As `write`, but tried once: False if nobody knows whether it happened.

        For what nobody can look up afterwards, and must not be there twice; it is asked for again if missed.
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
            continue  # what is sent next waits for a connection, or learns that the session is over
