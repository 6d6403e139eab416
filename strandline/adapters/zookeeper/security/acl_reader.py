"""Reads the ACLs of a cluster from ZooKeeper: all of them once, and then what the notices name.

A znode that is unreadable never ends its reader. If it should hold ACLs, everything that they are about is
denied until it is mended: one of them may have been a DENY.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from strandline.adapters.zookeeper.facts import Reader
from strandline.adapters.zookeeper.security.acl_znodes import (
    ACL_FOLDERS,
    load_bindings,
    load_change,
    load_pattern,
    pattern_path,
    refusing,
)
from strandline.adapters.zookeeper.security.notices import Notices, children_of
from strandline.adapters.zookeeper.unreadable import UnreadableLog
from strandline.adapters.zookeeper.znodes import UnreadableZnode
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.ports import NoNode
from strandline.security.acls import AclBinding, PatternType, ResourcePattern, ResourceType
from strandline.security.decide import Acls
from strandline.tasks import pipelined

_pipelined = partial(pipelined, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)


class StoredAcls(NamedTuple):
    """What the znode of a pattern holds."""

    bindings: frozenset[AclBinding]
    version: int | None
    """None: there is no znode."""
    unreadable: UnreadableZnode | None = None
    """Why the bindings are those that stand for an unreadable znode."""


class AclReader:
    """The ACLs as one session has read them. All methods raise what the session raises."""

    def __init__(self, session: Reader, version: int = 0) -> None:
        self._session = session
        self.acls = Acls(version)
        self._unreadable: set[ResourcePattern] = set()
        self._log = UnreadableLog()
        self.notices = Notices(session, load_change, self._log)

    async def load(self) -> Acls:
        """Read all ACLs."""
        await self.notices.begin()
        self._unreadable.clear()
        patterns = await self._listed()
        found = await _pipelined(self.read, patterns)
        self.acls = Acls(self.acls.version + 1, [each for stored in found for each in stored.bindings])
        return self.acls

    async def look(self) -> Acls | None:
        """Read what the notices since the last look name. None if there are none."""
        changed = await self.notices.fresh()
        if changed is None:
            return await self.load()
        return await self._reread(changed) if changed else None

    async def compare(self) -> Acls | None:
        """Find what no notice named: compare the names of the znodes, and read the unreadable ones again."""
        listed, known = set(await self._listed()), set(self.acls.patterns)
        different = (listed ^ known) | self._unreadable
        return await self._reread(different) if different else None

    async def read(self, pattern: ResourcePattern) -> StoredAcls:
        """The ACLs of one pattern, as its znode has them now."""
        self._unreadable.discard(pattern)
        try:
            node = await self._session.get(pattern_path(pattern))
        except NoNode:
            return StoredAcls(frozenset(), None)
        try:
            return StoredAcls(frozenset(load_bindings(pattern, node.data)), node.version)
        except UnreadableZnode as error:
            self._unreadable.add(pattern)
            self._log.report(error)
            return StoredAcls(frozenset({refusing(pattern)}), node.version, error)

    def put(self, changes: Mapping[ResourcePattern, Iterable[AclBinding]]) -> Acls:
        """The picture with these ACLs of some patterns, which this session has read or written."""
        self.acls = self.acls.replaced(self.acls.version + 1, changes)
        return self.acls

    async def _reread(self, patterns: Iterable[ResourcePattern]) -> Acls:
        wanted = sorted(patterns)
        found = await _pipelined(self.read, wanted)
        return self.put({pattern: stored.bindings for pattern, stored in zip(wanted, found, strict=True)})

    async def _listed(self) -> list[ResourcePattern]:
        """The patterns that have a znode."""
        folders = await _pipelined(self._children, ACL_FOLDERS.items())
        return [pattern for patterns in folders for pattern in patterns]

    async def _children(self, folder: tuple[tuple[ResourceType, PatternType], str]) -> list[ResourcePattern]:
        kind, path = folder
        patterns = []
        for child in await children_of(self._session, path):
            try:
                patterns.append(load_pattern(*kind, child))
            except UnreadableZnode as error:
                self._log.report(error)
        return patterns
