"""The state of one task on disk: what its changelog says, up to a checkpoint, and nothing else.

It is a cache of the changelog. Each batch has the data and the offset to go on from in it, and is there whole
or not at all: after a crash the checkpoint is true, if lower than it was (CORRECTNESS S3). Where that is not
to be had, as files are damaged or are of another changelog, the store begins anew and empty (S6)::

    lock        held while a store is open; the kernel lets go of it when its holder dies
    corrupt     a read has met damage: the next who opens the store begins anew
    db/         RocksDB's own files

Damage that open does not see is found by the checksum of the block that is read: `StoreCorrupt`.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self
from weakref import WeakSet

from rocksdict import DbClosedError, Rdict, RdictIter, WriteBatch

from strandline.errors import StorageFailed, StrandlineError
from strandline.streams.core.changelog import CHANGELOG_START, LOCAL_PREFIX, POSITION_KEY
from strandline.streams.core.positions import Positions
from strandline.streams.storage.database import open_database, without_log
from strandline.streams.storage.errors import StoreClosed, StoreCorrupt, StoreInUse

logger = logging.getLogger(__name__)

Change = tuple[bytes, bytes | None]
"""A key and what it is now; None: it is deleted."""

_LOCK: Final = "lock"
_CORRUPT: Final = "corrupt"
_DATABASE: Final = "db"

_FORMAT: Final = "1"
"""Stands before the identity: a store that another version wrote in another way is of another identity."""
_IDENTITY_KEY: Final = LOCAL_PREFIX + b"identity"
_CHECKPOINT_KEY: Final = LOCAL_PREFIX + b"checkpoint"
_CHECKPOINT: Final = struct.Struct(">q")

_OF_MACHINE: Final = tuple(
    os.strerror(number)
    for number in (
        errno.EACCES, errno.EAGAIN, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOLCK,
        errno.ENOMEM, errno.ENOSPC, errno.EPERM, errno.EROFS,
    )
)  # fmt: skip
"""In the texts of failures that say nothing of the bytes on disk."""


class TaskStore:
    """One open store. Keys and values are bytes, keys in their order; use from one thread at a time."""

    def __init__(self, folder: Path, identity: str, lock: int) -> None:
        """As `open` does it."""
        self.folder = folder
        self.identity = identity
        self._identity = f"{_FORMAT} {identity}".encode()
        self._lock = lock
        self._no_log = without_log()
        self._ranges: WeakSet[_Range] = WeakSet()
        self._checkpoint = 0
        self._begin()

    @classmethod
    def open(cls, folder: Path, identity: str) -> Self:
        """The store in this folder, which is made if it is missing. Takes a few milliseconds, in any thread.

        `identity` is that of the changelog: its topic's id and the partition. A store of another identity or
        with damage is emptied, which the log tells. Raises StoreInUse if another process or task has it, and
        StorageFailed if the disk refuses.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StorageFailed(f"task store {folder}: {error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cls(folder, identity, lock)
        except BlockingIOError:
            os.close(lock)
            raise StoreInUse(f"task store {folder}: another process or task has it open") from None
        except BaseException:
            os.close(lock)
            raise

    @property
    def checkpoint(self) -> int:
        """The changelog's offset to go on from: all below it is in the store. 0: nothing is."""
        return self._checkpoint

    def get(self, key: bytes) -> bytes | None:
        """The value, or None. Raises StoreCorrupt, StorageFailed."""
        try:
            value: bytes | None = self._get(key)
        except Exception as error:
            raise self._failure(error) from error
        return value

    def range(self, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Keys from `start` on and below `end` with their values, in order, as they are now: what is applied
        meanwhile does not show. None: to the last one.

        The iterator raises StoreCorrupt, StorageFailed, and StoreClosed if the store is closed or cleared
        before its end.
        """
        try:
            rows = self._db.iter()
            rows.seek(max(start, CHANGELOG_START))
        except Exception as error:
            raise self._failure(error) from error
        found = _Range(self, rows, end)
        self._ranges.add(found)
        return found

    def apply(self, changes: Iterable[Change], checkpoint: int) -> None:
        """Make these changes, in their order, and go on from `checkpoint`: both or neither, whatever crashes.

        Raises StoreCorrupt, StorageFailed.
        """
        if checkpoint < self._checkpoint:
            raise AssertionError(f"{self.folder}: checkpoint {checkpoint} after {self._checkpoint}")
        batch = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in changes:
            if value is None:
                delete(key)
            else:
                put(key, value)
        # Last, so that no key of a changelog, whatever is in it, is taken for one of these.
        put(_IDENTITY_KEY, self._identity)
        put(_CHECKPOINT_KEY, _CHECKPOINT.pack(checkpoint))
        try:
            self._db.write(batch, self._no_log)
        except Exception as error:
            raise self._failure(error) from error
        self._checkpoint = checkpoint

    def positions(self) -> Positions:
        """What the last position record says; empty without one. Raises StoreCorrupt, StorageFailed, and
        UnreadableState if the changelog has another version's record."""
        record = self.get(POSITION_KEY)
        return Positions() if record is None else Positions.decode(record)

    def clear(self) -> None:
        """Begin anew and empty. Ranges that were begun end in StoreClosed. Raises StorageFailed."""
        self._close_database()
        self._remove_database()
        self._begin()

    def close(self) -> None:
        """Write to disk what is in memory, and let go of the folder. The second time it does nothing."""
        if self._lock >= 0:
            self._close_database()
            os.close(self._lock)
            self._lock = -1

    def _begin(self) -> None:
        """Open the database if it is this changelog's and whole, else an empty one."""
        if (self.folder / _CORRUPT).exists():
            reason = "a read met damage"
        else:
            try:
                reason = self._try()
            except Exception as error:
                if not _is_damage(error):
                    raise self._failure(error) from error
                reason = str(error) or repr(error)
        if reason:
            logger.warning("task store %s begins anew: %s", self.folder, reason)
            self._remove_database()
            try:
                reason = self._try()
            except Exception as error:
                raise self._failure(error) from error
            if reason:
                raise AssertionError(f"{self.folder}: a new store: {reason}")

    def _try(self) -> str:
        """Open what is there; why that is not to be used, or nothing. Raises what RocksDB raises."""
        known = (self.folder / _DATABASE).exists()
        database = open_database(self.folder / _DATABASE)
        try:
            identity, checkpoint = database.get(_IDENTITY_KEY), database.get(_CHECKPOINT_KEY)
            reason = self._objection(identity, checkpoint, is_empty=_is_empty(database))
        except BaseException:
            database.close()
            raise
        if reason:
            database.close()
            return reason
        if known and identity is None:
            logger.warning("task store %s is empty: nothing of it had reached the disk", self.folder)
        self._db = database
        self._get = database.get
        self._checkpoint = 0 if checkpoint is None else _CHECKPOINT.unpack(checkpoint)[0]
        if identity is None:
            self.apply((), 0)
        return ""

    def _objection(self, identity: bytes | None, checkpoint: bytes | None, *, is_empty: bool) -> str:
        if identity is None and checkpoint is None and is_empty:
            return ""
        if identity is None or checkpoint is None or len(checkpoint) != _CHECKPOINT.size:
            return f"identity {identity!r}, checkpoint {checkpoint!r}, with data"
        if identity != self._identity:
            return f"it is of {identity.decode(errors='replace')!r}, wanted is {self._identity.decode()!r}"
        return ""

    def _close_database(self) -> None:
        for found in list(self._ranges):
            found.close()
        try:
            self._db.close()
        except Exception as error:
            # What was not written is in the changelog, and the checkpoint on disk knows that it is not here.
            logger.warning("task store %s: what was in memory is lost: %s", self.folder, error)

    def _remove_database(self) -> None:
        """In any order: RocksDB opens no database of which a file that it names is missing."""
        try:
            with suppress(FileNotFoundError):
                shutil.rmtree(self.folder / _DATABASE)
            (self.folder / _CORRUPT).unlink(missing_ok=True)
        except OSError as error:
            raise StorageFailed(f"task store {self.folder}: {error}") from error

    def _failure(self, error: Exception) -> StrandlineError:
        """What RocksDB's failure is called here; damage is noted for who opens the store next."""
        if isinstance(error, DbClosedError):
            return StoreClosed(f"task store {self.folder} is closed")
        if _is_damage(error):
            with suppress(OSError):
                (self.folder / _CORRUPT).touch()
            return StoreCorrupt(f"task store {self.folder}: {error}")
        return StorageFailed(f"task store {self.folder}: {error}")


class _Range(Iterator[tuple[bytes, bytes]]):
    """Rows of a store. RocksDB's own iterator of pairs ends at damage as if nothing followed; this raises.

    It looks for the end by itself: RocksDB would go by the bytes of a bound that this binding has freed.
    """

    __slots__ = ("__weakref__", "_end", "_rows", "_store")

    def __init__(self, store: TaskStore, rows: RdictIter, end: bytes | None) -> None:
        self._store = store
        self._rows: Any = rows
        self._end = end

    def __next__(self) -> tuple[bytes, bytes]:
        rows = self._rows
        if rows is None:
            raise StoreClosed(f"task store {self._store.folder} was closed before the end of a range")
        if rows.valid():
            key: bytes = rows.key()
            if self._end is not None and key >= self._end:
                raise StopIteration
            value: bytes = rows.value()
            rows.next()
            return key, value
        try:
            rows.status()
        except Exception as error:
            rows = self._rows = None  # whoever keeps the error with its frames would keep the database open
            raise self._store._failure(error) from error
        raise StopIteration

    def close(self) -> None:
        """Let go of the database, which stays open while an iterator does."""
        self._rows = None


def _is_empty(database: Rdict) -> bool:
    rows = database.iter()
    rows.seek_to_first()
    found = rows.valid()
    rows.status()
    return not found


def _is_damage(error: Exception) -> bool:
    """Whether the bytes are at fault and not the machine. RocksDB's failures are told apart by their texts;
    one that is not known is taken for damage: to begin anew costs a restore, and nothing else would help."""
    text = str(error)
    return not any(of_machine in text for of_machine in _OF_MACHINE)
