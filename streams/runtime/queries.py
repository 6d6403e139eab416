"""Looks into the state of the tasks that run here, and finds whose a key is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import merge
from typing import Any, Generic, TypeVar

from strandline.errors import StrandlineError
from strandline.producer.core.partitioner import partition_for
from strandline.streams.core.changelog import state_key, store_prefix
from strandline.streams.core.task import TaskId
from strandline.streams.storage.errors import StoreCorrupt
from strandline.streams.storage.task_store import TaskStore
from strandline.streams.topology.stores import Store
from strandline.streams.topology.subtopology import Subtopology

SK = TypeVar("SK")
SV = TypeVar("SV")


class NotHere(StrandlineError):
    """The key is another member's, or its task does not run here yet. The message names who has it."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who runs the task that a key belongs to."""

    task: TaskId
    member: str | None
    """Its member id; None while nobody is known to run it."""
    application_server: str
    """What that member says of where to ask it; empty if it says nothing."""
    here: bool
    """True if it runs on this very member, so that `get` answers."""


class Running:
    """What queries need of the member: which stores are open and run here, and who runs what elsewhere."""

    def __init__(
        self,
        *,
        stores: Callable[[str], Mapping[TaskId, TaskStore]],
        owners: Callable[[], Mapping[TaskId, str]],
        servers: Callable[[], Mapping[str, str]],
        count: Callable[[Subtopology], int],
        on_damaged: Callable[[TaskId, StoreCorrupt], None],
    ) -> None:
        self.stores = stores
        self.owners = owners
        self.servers = servers
        self.count = count
        self.on_damaged = on_damaged


class StoreQuery(Generic[SK, SV]):
    """Reads one store of all tasks that run here, as it was committed last; nothing of it can be changed.

    A key is looked for where the default partitioning of records puts it: murmur2 of its bytes.
    """

    def __init__(self, store: Store[SK, SV], subtopology: Subtopology, running: Running) -> None:
        self._store = store
        self._subtopology = subtopology
        self._running = running

    def get(self, key: SK) -> SV | None:
        """None if there is none. Raises NotHere for a key of another member, or while its task restores."""
        encoded = self._store.key.encode(key)
        task = self._task(encoded)
        store = self._running.stores(self._subtopology.name).get(task)
        if store is None:
            owner = self.owner(key)
            who = "nobody is known to run it now" if owner.member is None else f"{owner.member} runs it"
            where = f", at {owner.application_server}" if owner.application_server else ""
            raise NotHere(f"key {key!r} of store {self._store.name!r} belongs to task {task}: {who}{where}")
        with self._reading(task):
            value = store.get(state_key(self._store.name, encoded))
        return None if value is None else self._store.value.decode(value)

    def range(self, start: SK | None = None, end: SK | None = None) -> Iterator[tuple[SK, SV]]:
        """Of the tasks that run here, from `start` until before `end` in the order of the keys' bytes.

        The iterator raises NotHere if a store turns out to be damaged, StoreClosed if its task goes.
        """
        prefix = store_prefix(self._store.name)
        first = prefix if start is None else state_key(self._store.name, self._store.key.encode(start))
        last = None if end is None else state_key(self._store.name, self._store.key.encode(end))
        rows = [
            self._rows(task, store, first, last, prefix)
            for task, store in self._running.stores(self._subtopology.name).items()
        ]
        decode_key, decode_value = self._store.key.decode, self._store.value.decode
        for key, value in merge(*rows):
            yield decode_key(key), decode_value(value)

    def owner(self, key: SK) -> Owner:
        """Who runs the task of this key, as of the last rebalance. Raises NotHere before the start."""
        task = self._task(self._store.key.encode(key))
        member = self._running.owners().get(task)
        server = "" if member is None else self._running.servers().get(member, "")
        return Owner(task, member, server, task in self._running.stores(self._subtopology.name))

    def _task(self, key: bytes) -> TaskId:
        count = self._running.count(self._subtopology)
        if count == 0:
            raise NotHere(f"store {self._store.name!r}: the application has not started")
        return TaskId(self._subtopology.name, partition_for(key, count))

    def _rows(
        self, task: TaskId, store: TaskStore, first: bytes, last: bytes | None, prefix: bytes
    ) -> Iterator[tuple[bytes, bytes]]:
        with self._reading(task):
            for key, value in store.range(first, last):
                if not key.startswith(prefix):
                    return
                yield key[len(prefix) :], value

    @contextmanager
    def _reading(self, task: TaskId) -> Iterator[None]:
        """Damage that is met is the task's to mend (CORRECTNESS S6); until then nothing is here."""
        try:
            yield
        except StoreCorrupt as error:
            self._running.on_damaged(task, error)
            raise NotHere(f"store {self._store.name!r} of task {task} is being restored") from error


def find_store(subtopologies: Sequence[Subtopology], name: str) -> tuple[Store[Any, Any], Subtopology]:
    """Raises LookupError that names those there are."""
    for subtopology in subtopologies:
        for store in subtopology.stores:
            if store.name == name:
                return store, subtopology
    known = ", ".join(sorted(store.name for s in subtopologies for store in s.stores)) or "none"
    raise LookupError(f"there is no store {name!r} in this topology; there are: {known}")
