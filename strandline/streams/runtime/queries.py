"""Queries the state of the tasks on this member, and finds the owner of a key."""

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
from strandline.streams.storage.stores import StateStore
from strandline.streams.topology.stores import Store
from strandline.streams.topology.subtopology import Subtopology

SK = TypeVar("SK")
SV = TypeVar("SV")


class NotHere(StrandlineError):
    """The key belongs to another member, or its task does not run here yet. The message names the owner."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of the task that a key belongs to."""

    task: TaskId
    member: str | None
    """Its member id; None if no owner is known."""
    application_server: str
    """The `application_server` of that member; empty if it has none."""
    here: bool
    """True if it runs on this member, so that `get` answers."""


class QueryContext:
    """The state of the member that queries need: the open stores of running tasks, and the owners of other
    tasks."""

    def __init__(
        self,
        *,
        stores: Callable[[str], Mapping[TaskId, StateStore]],
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
    """Reads one store of all tasks that run here, as last committed; it cannot be changed.

    A key belongs to the partition of the default partitioner: murmur2 of its bytes.
    """

    def __init__(self, store: Store[SK, SV], subtopology: Subtopology, context: QueryContext) -> None:
        self._store = store
        self._subtopology = subtopology
        self._context = context

    def get(self, key: SK) -> SV | None:
        """The value, or None. Raises NotHere for a key of another member, or while its task restores."""
        encoded = self._store.key.encode(key)
        task = self._task(encoded)
        store = self._context.stores(self._subtopology.name).get(task)
        if store is None:
            owner = self.owner(key)
            runner = "no member is known to run it now" if owner.member is None else f"{owner.member} runs it"
            where = f", at {owner.application_server}" if owner.application_server else ""
            raise NotHere(
                f"key {key!r} of store {self._store.name!r} belongs to task {task}: {runner}{where}"
            )
        with self._reading(task):
            value = store.get(state_key(self._store.name, encoded))
        return None if value is None else self._store.value.decode(value)

    def range(self, start: SK | None = None, end: SK | None = None) -> Iterator[tuple[SK, SV]]:
        """Entries of the tasks that run here, from `start` until before `end`, ordered by the keys' bytes.

        The iterator raises NotHere if a store is found to be damaged, StoreClosed if its task leaves.
        """
        prefix = store_prefix(self._store.name)
        first = prefix if start is None else state_key(self._store.name, self._store.key.encode(start))
        last = None if end is None else state_key(self._store.name, self._store.key.encode(end))
        rows = [
            self._rows(task, store, first, last, prefix)
            for task, store in self._context.stores(self._subtopology.name).items()
        ]
        decode_key, decode_value = self._store.key.decode, self._store.value.decode
        for key, value in merge(*rows):
            yield decode_key(key), decode_value(value)

    def owner(self, key: SK) -> Owner:
        """The owner of this key's task, as of the last rebalance. Raises NotHere before the start."""
        task = self._task(self._store.key.encode(key))
        member = self._context.owners().get(task)
        server = "" if member is None else self._context.servers().get(member, "")
        return Owner(task, member, server, task in self._context.stores(self._subtopology.name))

    def _task(self, key: bytes) -> TaskId:
        count = self._context.count(self._subtopology)
        if count == 0:
            raise NotHere(f"store {self._store.name!r}: the application has not started")
        return TaskId(self._subtopology.name, partition_for(key, count))

    def _rows(
        self, task: TaskId, store: StateStore, first: bytes, last: bytes | None, prefix: bytes
    ) -> Iterator[tuple[bytes, bytes]]:
        with self._reading(task):
            for key, value in store.range(first, last):
                if not key.startswith(prefix):
                    return
                yield key[len(prefix) :], value

    @contextmanager
    def _reading(self, task: TaskId) -> Iterator[None]:
        """Damage is reported to the task, which repairs its store (CORRECTNESS S6); until then the state is
        not here."""
        try:
            yield
        except StoreCorrupt as error:
            self._context.on_damaged(task, error)
            raise NotHere(f"store {self._store.name!r} of task {task} is being restored") from error


def find_store(subtopologies: Sequence[Subtopology], name: str) -> tuple[Store[Any, Any], Subtopology]:
    """Raises LookupError that names the existing stores."""
    for subtopology in subtopologies:
        for store in subtopology.stores:
            if store.name == name:
                return store, subtopology
    known = ", ".join(sorted(store.name for s in subtopologies for store in s.stores)) or "none"
    raise LookupError(f"there is no store {name!r} in this topology; there are: {known}")
