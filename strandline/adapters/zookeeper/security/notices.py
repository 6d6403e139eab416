"""The notices of changes to ACLs and users: one folder, and so one watch, for all (docs/design.md,
"ZooKeeper")."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from strandline.adapters.zookeeper.facts import Reader
from strandline.adapters.zookeeper.security.acl_znodes import CHANGE_PREFIX, CHANGES
from strandline.adapters.zookeeper.unreadable import UnreadableLog
from strandline.adapters.zookeeper.znodes import UnreadableZnode
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.ports import Create, Delete, NoNode, Operation, SetData
from strandline.tasks import pipelined

T = TypeVar("T")

_NOTICE: Final = re.compile("change-[0-9]{10}")


class Notices(Generic[T]):
    """The notices, as one reader has followed them. All methods raise what the session raises."""

    def __init__(
        self, session: Reader, load: Callable[[str, bytes], Sequence[T]], unreadable: UnreadableLog
    ) -> None:
        """`load` gives what a notice at a path names for this reader. It raises UnreadableZnode."""
        self._session = session
        self._load = load
        self._unreadable = unreadable
        self._last = ""
        """The newest notice that was read."""

    async def begin(self) -> None:
        """Count all notices that are there as read: the caller reads everything next."""
        self._last = max(await notice_names(self._session), default="")

    async def fresh(self) -> set[T] | None:
        """What the notices since the last look name. None if it cannot be known: everything may have
        changed."""
        names = await notice_names(self._session)
        if self._last not in names and (names or self._last):
            # The notice that was read last is gone, and others may be with it; or there was none at all.
            return None
        fresh = [name for name in names if name > self._last]
        named = await pipelined(self._named, fresh, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        found: set[T] = set()
        for each in named:
            if each is None:
                return None
            found.update(each)
        self._last = max(fresh, default=self._last)
        return found

    async def _named(self, notice: str) -> Sequence[T] | None:
        path = f"{CHANGES}/{notice}"
        try:
            return self._load(path, (await self._session.get(path)).data)
        except NoNode:
            return None
        except UnreadableZnode as error:
            self._unreadable.report(error)
            return None


def noticed_write(path: str, version: int | None, data: bytes | None, notice: bytes) -> list[Operation]:
    """The writes, of one transaction, that change a znode and say so. `version`: what the znode had when it
    was read; None: there was none. `data`: None removes it."""
    write: Operation
    if data is None:
        write = Delete(path, -1 if version is None else version)
    elif version is None:
        write = Create(path, data)
    else:
        write = SetData(path, data, version)
    return [write, Create(CHANGE_PREFIX, notice, sequential=True)]


async def notice_names(session: Reader) -> list[str]:
    """The notices that are there, oldest first."""
    return sorted(filter(_NOTICE.fullmatch, await children_of(session, CHANGES)))


async def children_of(session: Reader, path: str) -> list[str]:
    """The children of a znode; none if it was removed by hand."""
    try:
        return await session.children(path)
    except NoNode:
        return []
