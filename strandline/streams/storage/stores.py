"""The stores of a member as Protocols. The real ones are on disk; a host without a disk has its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from strandline.ids import NO_EPOCH
from strandline.streams.core.checkpoint import Checkpoint
from strandline.streams.core.positions import Positions
from strandline.streams.core.task import TaskId

Change = tuple[bytes, bytes | None]
"""A key and its new value; None: it is deleted."""


class StateStore(Protocol):
    """The state of one task: the content of its changelog up to a checkpoint. `TaskStore` has the details.

    Every method but `close` raises StoreCorrupt and StorageFailed.
    """

    @property
    def checkpoint(self) -> int:
        """The next offset of the changelog to apply."""
        ...

    @property
    def kept(self) -> Checkpoint:
        """The same, with the log that it belongs to, and the store's age."""
        ...

    def get(self, key: bytes) -> bytes | None: ...

    def range(self, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """A snapshot of the rows from `start` on and below `end`. The iterator raises StoreClosed."""
        ...

    def apply(
        self,
        changes: Iterable[Change],
        checkpoint: int,
        leader_epoch: int = NO_EPOCH,
        as_of_ms: int | None = None,
    ) -> None:
        """Apply these changes in order, and set the checkpoint, atomically even over a crash. `leader_epoch`
        is that of the record before it; without `as_of_ms` that time stays."""
        ...

    def positions(self) -> Positions:
        """The last position record. Raises UnreadableState."""
        ...

    def clear(self) -> None:
        """Empty the store."""
        ...

    def close(self) -> None: ...


class StateStores(Protocol):
    """The stores of one member, until `close`."""

    def open(self, task: TaskId, identity: str) -> StateStore:
        """The store of a task for the changelog with this identity. Raises StoreInUse, StorageFailed."""
        ...

    def kept(self) -> list[TaskId]:
        """The tasks with a store, open or not."""
        ...

    def remove(self, task: TaskId) -> Callable[[], None]:
        """Take a closed store away; call what is returned, in any thread, to free the disk.

        Raises StoreInUse, StorageFailed."""
        ...

    def close(self) -> None:
        """Release the stores for another member. Close each of them first."""
        ...


OpenStores = Callable[[Path, str], StateStores]
"""Opens the stores of one member, given `state_dir` and the application id. Raises SettingsError."""
