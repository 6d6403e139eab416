"""A session whose notices are read once for all pictures that follow them.

A notice is never changed, so what was read of it counts until it is forgotten.
"""

from __future__ import annotations

from strandline.adapters.zookeeper.facts import Reader
from strandline.adapters.zookeeper.security.acl_znodes import CHANGES
from strandline.ports import Znode


class SharedNotices:
    """`Reader` of everything; it keeps the notices, and their names, until `forget`."""

    def __init__(self, session: Reader) -> None:
        self._session = session
        self._names: list[str] | None = None
        self._read: dict[str, Znode] = {}

    def forget(self) -> None:
        """A look begins: there may be others by now."""
        self._names = None
        self._read.clear()

    async def get(self, path: str) -> Znode:
        if not path.startswith(f"{CHANGES}/"):
            return await self._session.get(path)
        if (known := self._read.get(path)) is None:
            known = self._read[path] = await self._session.get(path)
        return known

    async def children(self, path: str) -> list[str]:
        if path != CHANGES:
            return await self._session.children(path)
        if self._names is None:
            self._names = await self._session.children(path)
        return self._names
