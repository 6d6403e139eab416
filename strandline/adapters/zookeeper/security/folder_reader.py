"""Reads the facts of one folder in ZooKeeper, one znode each: all of them once, and then those that notices
name.

A znode that is unreadable never ends its reader: its fact is as if it were not there until the znode is
mended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from strandline.adapters.zookeeper.facts import Reader
from strandline.adapters.zookeeper.security.acl_znodes import CHANGES
from strandline.adapters.zookeeper.security.notices import Notices, children_of, noticed_write
from strandline.adapters.zookeeper.unreadable import UnreadableLog
from strandline.adapters.zookeeper.znodes import UnreadableZnode
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.ports import NoNode, Operation
from strandline.tasks import pipelined

K = TypeVar("K")
V = TypeVar("V")

_pipelined = partial(pipelined, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)


class Stored(NamedTuple, Generic[V]):
    """What the znode of a fact holds."""

    value: V
    version: int | None = None
    """None: there is no znode."""

    def holds(self, value: V) -> bool:
        """Whether a write of this value would change nothing: for an empty one, there is no znode."""
        return self.value == value and (self.version is None) == (not value)


@dataclass(frozen=True)
class Folder(Generic[K, V]):
    """A folder, how its znodes are named, and what is in them. An empty value is no fact. The functions that
    load raise UnreadableZnode."""

    path: str
    name: Callable[[K], str]
    """The name of a fact's znode."""
    load_name: Callable[[str], K]
    dump: Callable[[V], bytes]
    load: Callable[[K, bytes], V]
    empty: Callable[[], V]
    dump_change: Callable[[Sequence[K]], bytes]
    """The notice that these facts have changed."""
    load_change: Callable[[str, bytes], Sequence[K]]
    """The facts that the notice at a path names."""

    @property
    def skeleton(self) -> tuple[str, str]:
        """Persistent paths that a writer creates if they are missing."""
        return CHANGES, self.path

    def path_of(self, key: K) -> str:
        return f"{self.path}/{self.name(key)}"

    def writes(self, key: K, stored: Stored[V], value: V) -> list[Operation]:
        """The writes, of one transaction, that replace the stored value, or remove it if the new one is
        empty."""
        data = self.dump(value) if value else None
        return noticed_write(self.path_of(key), stored.version, data, self.dump_change([key]))


class FolderReader(Generic[K, V]):
    """The facts of a folder as one session has read them. All methods raise what the session raises."""

    def __init__(self, session: Reader, folder: Folder[K, V]) -> None:
        self._session = session
        self._folder = folder
        self.found: Mapping[K, V] = {}
        self._log = UnreadableLog()
        self._notices = Notices(session, folder.load_change, self._log)

    async def load(self) -> Mapping[K, V]:
        """Read all facts."""
        await self._notices.begin()
        self.found = {}
        return await self._read_again(await self.listed())

    async def look(self) -> Mapping[K, V] | None:
        """Read the facts that the notices since the last look name. None if there are none."""
        changed = await self._notices.fresh()
        if changed is None:
            return await self.load()
        return await self._read_again(changed) if changed else None

    async def compare(self) -> Mapping[K, V] | None:
        """Find facts that came or went without a notice."""
        different = set(await self.listed()) ^ set(self.found)
        return await self._read_again(different) if different else None

    def put(self, written: Mapping[K, V]) -> Mapping[K, V]:
        """Take what was written: an empty value is no fact."""
        self.found = {key: value for key, value in {**self.found, **written}.items() if value}
        return self.found

    async def read(self, key: K) -> Stored[V]:
        """One fact, as its znode has it now."""
        try:
            node = await self._session.get(self._folder.path_of(key))
        except NoNode:
            return Stored(self._folder.empty())
        try:
            return Stored(self._folder.load(key, node.data), node.version)
        except UnreadableZnode as error:
            self._log.report(error)
            return Stored(self._folder.empty(), node.version)

    async def _read_again(self, keys: Iterable[K]) -> Mapping[K, V]:
        wanted = list(dict.fromkeys(keys))
        found = await _pipelined(self.read, wanted)
        return self.put({key: stored.value for key, stored in zip(wanted, found, strict=True)})

    async def listed(self) -> list[K]:
        """The facts that have a znode, as ZooKeeper lists them now."""
        keys = []
        for child in await children_of(self._session, self._folder.path):
            try:
                keys.append(self._folder.load_name(child))
            except UnreadableZnode as error:
                self._log.report(error)
        return keys
