"""The stores of stream members in memory, for simulators and tests: they outlive the member that has them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from strandline.ids import NO_EPOCH
from strandline.streams.core.checkpoint import NOTHING
from strandline.streams.core.positions import Positions
from strandline.streams.core.task import TaskId
from strandline.streams.storage.errors import StoreClosed, StoreInUse
from strandline.streams.storage.stores import Change


class MemoryStore:
    """One open store."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.is_open = True
        self.lives = 0
        """Counts opens, closes and clears: ranges of an earlier life are over."""
        self.rows: dict[bytes, bytes] = {}
        """All that it has."""
        self.kept = NOTHING

    @property
    def checkpoint(self) -> int:
        return self.kept.offset

    def get(self, key: bytes) -> bytes | None:
        if not self.is_open:
            raise StoreClosed("the store is closed")
        return self.rows.get(key)

    def range(self, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        if not self.is_open:
            raise StoreClosed("the store is closed")
        rows = sorted(self.rows.items())
        last = len(rows) if end is None else bisect_left(rows, (end, b""))
        return self._living(rows[bisect_left(rows, (start, b"")) : last], self.lives)

    def _living(self, rows: list[tuple[bytes, bytes]], life: int) -> Iterator[tuple[bytes, bytes]]:
        for row in rows:
            if life != self.lives:
                raise StoreClosed("the store was closed before the end of a range")
            yield row

    def apply(
        self,
        changes: Iterable[Change],
        checkpoint: int,
        leader_epoch: int = NO_EPOCH,
        as_of_ms: int | None = None,
    ) -> None:
        assert self.is_open and checkpoint >= self.checkpoint
        for key, value in changes:
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        self.kept = self.kept.moved(checkpoint, leader_epoch, as_of_ms)

    def positions(self) -> Positions:
        return Positions.read(self.get)

    def clear(self) -> None:
        self.rows = {}
        self.kept = NOTHING
        self.lives += 1

    def close(self) -> None:
        self.is_open = False
        self.lives += 1


class MemoryStores:
    """The stores of one member."""

    def __init__(self) -> None:
        self._stores: dict[TaskId, MemoryStore] = {}

    def open(self, task: TaskId, identity: str) -> MemoryStore:
        store = self._stores.get(task)
        if store is not None and store.is_open:
            raise StoreInUse(f"the store of {task} is open")
        if store is None or store.identity != identity:
            store = self._stores[task] = MemoryStore(identity)
        store.is_open = True
        return store

    def rows(self, task: TaskId) -> Mapping[bytes, bytes]:
        """All that a task's store has, for a judge; nothing if there is no store."""
        store = self._stores.get(task)
        return {} if store is None else store.rows

    def kept(self) -> list[TaskId]:
        return sorted(self._stores)

    def remove(self, task: TaskId) -> Callable[[], None]:
        if self._stores[task].is_open:
            raise StoreInUse(f"the store of {task} is open")
        del self._stores[task]
        return lambda: None

    def close(self) -> None:
        assert not any(store.is_open for store in self._stores.values())

    def member_ended(self) -> None:
        """The member is dead: what it applied stays, and nothing is open."""
        for store in self._stores.values():
            if store.is_open:
                store.close()


class MemoryDisk:
    """The stores of all members of one machine. `open` is an `OpenStores`."""

    def __init__(self) -> None:
        self._stores: dict[tuple[Path, str], MemoryStores] = {}

    def open(self, state_dir: Path, application_id: str) -> MemoryStores:
        """For one member of an application for each `state_dir`."""
        return self._stores.setdefault((state_dir, application_id), MemoryStores())

    def process_ended(self) -> None:
        """All members of this machine are dead."""
        for stores in self._stores.values():
            stores.member_ended()
