"""The uncommitted changes of a running task, layered over its store.

The task may continue during a commit: `changes` lists what the changelog gets, `settle` writes exactly that
to the store once the changelog has it (CORRECTNESS S3), and later changes wait for the next commit. So there
are two layers over the store: changes not yet listed, over listed ones.

Recently read or written entries are cached beside them, because most tasks use the same keys again, and a
lookup in the store takes microseconds. The cache ends with the task's run, like all of this state (S2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Final

from strandline.config.limits import MIB
from strandline.ids import NO_EPOCH
from strandline.streams.core.changelog import LOGS_KEY, POSITION_KEY, store_end, store_prefix
from strandline.streams.core.positions import Positions
from strandline.streams.storage.stores import Change, StateStore

KNOWN_BYTES_MAX: Final = 2 * MIB
"""Cache memory of one task, besides its uncommitted changes."""
_ENTRY_BYTES: Final = 120
"""Memory of an entry besides its bytes."""

_key_of = itemgetter(0)


class TaskState:
    """The state as the task sees it. Each store name is a namespace of byte keys; nothing here awaits."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._get = store.get
        self._prefixes: dict[str, bytes] = {}
        self._dirty: dict[bytes, bytes | None] = {}
        self.dirty_bytes = 0
        """Size of the keys and values that the next `changes` lists for the first time."""
        self._listed: dict[bytes, bytes | None] = {}
        self._known: dict[bytes, bytes | None] = {}
        """Every key of the two layers, and every key read from the store, with its current value."""
        self._known_bytes = 0

    def get(self, store: str, key: bytes) -> bytes | None:
        """The value, or None. Raises StoreCorrupt, StorageFailed."""
        full = (self._prefixes.get(store) or self._prefix(store)) + key
        try:
            return self._known[full]
        except KeyError:
            value = self._known[full] = self._get(full)
        self._known_bytes += len(full) + len(value or b"") + _ENTRY_BYTES
        return value

    def put(self, store: str, key: bytes, value: bytes | None) -> None:
        """Set a value; None deletes."""
        full = (self._prefixes.get(store) or self._prefix(store)) + key
        dirty = self._dirty
        if full in dirty:
            self.dirty_bytes -= len(dirty[full] or b"")
        else:
            self.dirty_bytes += len(full)
        self.dirty_bytes += len(value or b"")
        dirty[full] = self._known[full] = value

    def range(self, store: str, start: bytes | None, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Keys from `start` on and below `end` with their values, in byte order; None: no bound.

        It is a snapshot: later changes do not show. The iterator raises StoreCorrupt, StorageFailed, and
        StoreClosed if the store is closed before its end.
        """
        prefix = self._prefix(store)
        first = prefix if start is None else prefix + start
        last = store_end(store) if end is None else prefix + end
        # Of rows with the same key, the one of the uppermost layer comes first.
        layers = (
            _rows(self._dirty, first, last),
            _rows(self._listed, first, last),
            self._store.range(first, last),
        )
        return _merged(layers, len(prefix))

    def changes(self, positions: Positions) -> list[Change]:
        """The changes for the changelog: each key once, with its current value, in the order of first change,
        and the position records last. Changes that an earlier call listed and no `settle` has written are
        listed again."""
        self._listed.update(self._dirty)
        for key in (LOGS_KEY, POSITION_KEY):
            self._listed.pop(key, None)
        self._listed |= positions.rows()
        self._known_bytes += self.dirty_bytes + len(self._dirty) * _ENTRY_BYTES
        self._dirty = {}
        self.dirty_bytes = 0
        return list(self._listed.items())

    def settle(self, checkpoint: int, leader_epoch: int = NO_EPOCH, as_of_ms: int | None = None) -> None:
        """Write to the store what the last `changes` listed; the changelog has it below `checkpoint`.

        Raises StoreCorrupt, StorageFailed: then it is not written, and stays listed.
        """
        self._store.apply(self._listed.items(), checkpoint, leader_epoch, as_of_ms)
        self._listed = {}
        if self._known_bytes > KNOWN_BYTES_MAX:
            self._known = dict(self._dirty)
            self._known_bytes = 0

    def discard(self) -> None:
        """Discard all changes that are not settled."""
        self._dirty = {}
        self.dirty_bytes = 0
        self._listed = {}
        self._known = {}
        self._known_bytes = 0

    def _prefix(self, store: str) -> bytes:
        prefix = self._prefixes.get(store)
        if prefix is None:
            prefix = self._prefixes[store] = store_prefix(store)
        return prefix


def _rows(layer: Mapping[bytes, bytes | None], first: bytes, last: bytes) -> Iterator[Change]:
    return iter(sorted((key, value) for key, value in layer.items() if first <= key < last))


def _merged(
    layers: tuple[Iterator[Change] | Iterator[tuple[bytes, bytes]], ...], cut: int
) -> Iterator[tuple[bytes, bytes]]:
    for key, rows in groupby(merge(*layers, key=_key_of), _key_of):
        value = next(rows)[1]
        if value is not None:
            yield key[cut:], value
