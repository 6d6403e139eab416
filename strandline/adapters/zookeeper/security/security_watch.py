"""Keeps a member's pictures of ACLs and users: each is read whole at the start of a session, then by notices.

One watch is enough, on the folder of notices. While ZooKeeper is away, the last pictures stand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from strandline.adapters.zookeeper.facts import Reader
from strandline.adapters.zookeeper.looks import Looks
from strandline.adapters.zookeeper.security.acl_znodes import CHANGES
from strandline.adapters.zookeeper.security.pictures import Picture
from strandline.adapters.zookeeper.security.shared_notices import SharedNotices
from strandline.ports import Clock, Coordination


class SecurityWatch:
    """Keeps the pictures of one session. Without pictures it reads and watches nothing."""

    def __init__(
        self,
        session: Coordination,
        pictures_of: Callable[[Reader], Sequence[Picture[Any]]],
        clock: Clock,
    ) -> None:
        """`pictures_of` makes pictures that read from the given reader, so that they share their notices."""
        self._session = session
        self._notices = SharedNotices(session)
        self._pictures = pictures_of(self._notices)
        self._looks = Looks(self._look, clock)
        self._one = asyncio.Lock()
        """What a look has read is never replaced by what a comparison read before it, or the reverse."""

    async def open(self) -> None:
        """Set the watch, and read everything."""
        if not self._pictures:
            return
        for path in (CHANGES, *(folder for picture in self._pictures for folder in picture.folders)):
            await self._session.ensure_path(path)
        self._session.watch_children(CHANGES, lambda _: self._looks.again())
        for picture in self._pictures:
            await picture.load()

    def look_again(self) -> None:
        """Have `run` read the notices, whether the watch fired or not."""
        self._looks.again()

    async def run(self) -> None:
        """Take each change. Runs until cancelled."""
        await self._looks.run()

    async def compare(self) -> None:
        """Find changes without a notice, made by hand. Raises ConnectionLost."""
        async with self._one:
            for picture in self._pictures:
                await picture.compare()

    async def _look(self) -> None:
        async with self._one:
            self._notices.forget()
            for picture in self._pictures:
                await picture.look()
            self._notices.forget()
