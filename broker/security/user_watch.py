"""Keeps a broker's picture of the users: read whole at the start of a session, then by notices.

While ZooKeeper is away, the last picture stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from strandline.adapters.zookeeper.security_znodes import CHANGES
from strandline.adapters.zookeeper.users.reader import UserReader
from strandline.adapters.zookeeper.users.znodes import USERS
from strandline.ports import Clock, ConnectionLost, Coordination
from strandline.security.login.authenticator import Authenticator
from strandline.security.login.credentials import Credentials

logger = structlog.get_logger(__name__)

READ_AGAIN_S: Final = 0.1


class UserWatch:
    """Gives the authenticator each picture of one session. Without mechanisms it does nothing."""

    def __init__(self, session: Coordination, authenticator: Authenticator, clock: Clock) -> None:
        self._session = session
        self._authenticator = authenticator
        self._reader = UserReader(session)
        self._clock = clock
        self._changed = asyncio.Event()

    @property
    def _idle(self) -> bool:
        return not self._authenticator.mechanisms

    async def open(self) -> None:
        """Set the watch, and read all users."""
        if self._idle:
            return
        for path in (CHANGES, USERS):
            await self._session.ensure_path(path)
        self._session.watch_children(CHANGES, lambda _: self._changed.set())
        self._take(await self._reader.load())

    def look_again(self) -> None:
        """Have `run` read the notices, whether the watch fired or not."""
        self._changed.set()

    async def run(self) -> None:
        """Take each change. Runs until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._idle:
                continue
            try:
                self._take(await self._reader.look())
            except ConnectionLost:
                await self._clock.sleep(READ_AGAIN_S)
                self._changed.set()

    async def compare(self) -> None:
        """Find changes without a notice, made by hand. Raises ConnectionLost."""
        if not self._idle:
            self._take(await self._reader.compare())

    def _take(self, users: Mapping[str, Credentials] | None) -> None:
        if users is not None:
            self._authenticator.take(users)
            logger.info("users read", users=len(users))
