"""Keeps a broker's picture of the ACLs: read whole at the start of a session, then by notices.

One watch is enough, on the folder of notices. While ZooKeeper is away, the last picture stands.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from strandline.adapters.zookeeper.acl_reader import AclReader
from strandline.adapters.zookeeper.security_znodes import CHANGES, SKELETON
from strandline.ports import Clock, ConnectionLost, Coordination
from strandline.security.authorizer import Authorizer
from strandline.security.decide import Acls

logger = structlog.get_logger(__name__)

READ_AGAIN_S: Final = 0.1


class AclWatch:
    """Gives the authorizer each picture of one session. Without an authorizer it does nothing."""

    def __init__(self, session: Coordination, authorizer: Authorizer, clock: Clock) -> None:
        self._session = session
        self._authorizer = authorizer
        self._reader = AclReader(session, authorizer.version)
        self._clock = clock
        self._changed = asyncio.Event()

    async def open(self) -> None:
        """Set the watch, and read all ACLs."""
        if self._authorizer.rules is None:
            return
        for path in SKELETON:
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
            if self._authorizer.rules is None:
                continue
            try:
                self._take(await self._reader.look())
            except ConnectionLost:
                await self._clock.sleep(READ_AGAIN_S)
                self._changed.set()

    async def compare(self) -> None:
        """Find changes without a notice, made by hand. Raises ConnectionLost."""
        if self._authorizer.rules is not None:
            self._take(await self._reader.compare())

    def _take(self, acls: Acls | None) -> None:
        if acls is not None:
            self._authorizer.take(acls)
            logger.info("ACLs read", acls=len(acls), version=acls.version)
