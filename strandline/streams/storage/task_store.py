"""The state of one task on disk: the content of its changelog up to a checkpoint, and nothing else.

It is a cache of the changelog. Each batch contains data and the next offset, and is applied as a whole or not
at all: after a crash the checkpoint is correct, if lower than before (CORRECTNESS S3). If files are damaged
or belong to another changelog, the store starts empty (S6)::

    lock        held while a store is open; the kernel releases it when its holder dies
    corrupt     a read found damage: the next open empties the store
    db-NUMBER/  RocksDB's own files; NUMBER is the inode of the lock

If the folder is removed under an open store, another one may be opened in its place, while RocksDB still
writes files by their paths: they are in different folders.

Damage that is not found at open is found by the checksum of the block that is read: `StoreCorrupt`.
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
from strandline.ids import NO_EPOCH
from strandline.streams.core.changelog import CHANGELOG_START, LOCAL_PREFIX
from strandline.streams.core.checkpoint import NOTHING, Checkpoint
from strandline.streams.core.positions import Positions
from strandline.streams.storage.database import open_database, without_log
from strandline.streams.storage.errors import StoreClosed, StoreCorrupt, StoreInUse
from strandline.streams.storage.stores import Change

logger = logging.getLogger(__name__)

_LOCK: Final = "lock"
_CORRUPT: Final = "corrupt"
_DATABASE: Final = "db"

_FORMAT: Final = "1"
"""Precedes the identity, so that a store in the format of another version has another identity."""
_IDENTITY_KEY: Final = LOCAL_PREFIX + b"identity"
_CHECKPOINT_KEY: Final = LOCAL_PREFIX + b"checkpoint"
_CHECKPOINT: Final = struct.Struct(">qiq")
"""The fields of a `Checkpoint`. Earlier versions wrote the offset alone."""
_OFFSET: Final = struct.Struct(">q")

_SYSTEM_ERRORS: Final = tuple(
    os.strerror(number)
    for number in (
        errno.EACCES, errno.EAGAIN, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOLCK,
        errno.ENOMEM, errno.ENOSPC, errno.EPERM, errno.EROFS,
    )
)  # fmt: skip
"""System errors in RocksDB's messages that do not mean damaged data."""


class TaskStore:
    """One open store. Keys and values are bytes, ordered by key; use it from one thread at a time."""

    def __init__(self, folder: Path, identity: str, lock: int) -> None:
        """Called by `open`."""
        self.folder = folder
        self.identity = identity
        self._identity = f"{_FORMAT} {identity}".encode()
        self._lock = lock
        self._database = folder / f"{_DATABASE}-{os.fstat(lock).st_ino}"
        self._no_log = without_log()
        self._ranges: WeakSet[_Range] = WeakSet()
        self.kept = NOTHING
        """The checkpoint, with the log that it belongs to, and the store's age."""
        self._begin()

    @classmethod
    def open(cls, folder: Path, identity: str) -> Self:
        """The store in this folder, which is created if it is missing. Takes a few milliseconds, in any
        thread.

        `identity` is that of the changelog: its topic's id and the partition. A store with another identity
        or with damage is emptied, which is logged. Raises StoreInUse if another process or task has it open,
        and StorageFailed if the disk refuses.
        """
        lock = _locked(folder)
        try:
            return cls(folder, identity, lock)
        except BaseException:
            os.close(lock)
            raise

    @staticmethod
    def move(folder: Path, away: Path) -> None:
        """Move a store that is not open to another folder. Raises StoreInUse, StorageFailed."""
        lock = _locked(folder)
        try:
            away.parent.mkdir(exist_ok=True)
            folder.rename(away)
        except OSError as error:
            raise StorageFailed(f"task store {folder}: {error}") from error
        finally:
            os.close(lock)

    @property
    def checkpoint(self) -> int:
        """The next offset of the changelog to apply: everything below it is in the store. 0: the store is
        empty."""
        return self.kept.offset

    def get(self, key: bytes) -> bytes | None:
        """The value, or None. Raises StoreCorrupt, StorageFailed."""
        try:
            value: bytes | None = self._get(key)
        except Exception as error:
            raise self._failure(error) from error
        return value

    def range(self, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Keys from `start` on and below `end` with their values, in order; a snapshot, in which later
        changes do not show. None: to the last key.

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

    def apply(
        self,
        changes: Iterable[Change],
        checkpoint: int,
        leader_epoch: int = NO_EPOCH,
        as_of_ms: int | None = None,
    ) -> None:
        """Apply these changes in order, and set the checkpoint, atomically even over a crash. `leader_epoch`
        is that of the record before it; without `as_of_ms` that time stays.

        Raises StoreCorrupt, StorageFailed.
        """
        if checkpoint < self.checkpoint:
            raise AssertionError(f"{self.folder}: checkpoint {checkpoint} after {self.checkpoint}")
        kept = self.kept.moved(checkpoint, leader_epoch, as_of_ms)
        batch = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in changes:
            if value is None:
                delete(key)
            else:
                put(key, value)
        # Last, so that no key of a changelog can overwrite them.
        put(_IDENTITY_KEY, self._identity)
        put(_CHECKPOINT_KEY, _CHECKPOINT.pack(*kept))
        try:
            self._db.write(batch, self._no_log)
        except Exception as error:
            raise self._failure(error) from error
        self.kept = kept

    def positions(self) -> Positions:
        """The last position record; empty without one. Raises StoreCorrupt, StorageFailed, and
        UnreadableState if the changelog has a record of another version."""
        return Positions.read(self.get)

    def clear(self) -> None:
        """Empty the store. Open ranges end with StoreClosed. Raises StorageFailed."""
        self._close_database()
        self._remove_database()
        self._begin()

    def close(self) -> None:
        """Flush memory to disk, and release the folder. Further calls do nothing."""
        if self._lock >= 0:
            self._close_database()
            os.close(self._lock)
            self._lock = -1

    def _begin(self) -> None:
        """Open the database if it is intact and belongs to this changelog, else an empty one."""
        self._adopt_database()
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

    def _adopt_database(self) -> None:
        """Take over the database of an earlier version, or of a copied folder. Raises StorageFailed."""
        try:
            for other in self.folder.glob(f"{_DATABASE}*"):
                if other == self._database:
                    continue
                if self._database.exists():
                    shutil.rmtree(other)
                else:
                    other.rename(self._database)
        except OSError as error:
            raise StorageFailed(f"task store {self.folder}: {error}") from error

    def _try(self) -> str:
        """Open the existing database; returns why it cannot be used, or "". Raises RocksDB's errors."""
        known = self._database.exists()
        database = open_database(self._database)
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
        self.kept = NOTHING if checkpoint is None else _checkpoint(checkpoint)
        if identity is None:
            self.apply((), 0)
        return ""

    def _objection(self, identity: bytes | None, checkpoint: bytes | None, *, is_empty: bool) -> str:
        if identity is None and checkpoint is None and is_empty:
            return ""
        if identity is None or checkpoint is None or len(checkpoint) not in (_CHECKPOINT.size, _OFFSET.size):
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
            # Unwritten data is in the changelog, and the checkpoint on disk does not include it.
            logger.warning("task store %s: what was in memory is lost: %s", self.folder, error)

    def _remove_database(self) -> None:
        """The order does not matter: RocksDB does not open a database that lacks a file named in it."""
        try:
            with suppress(FileNotFoundError):
                shutil.rmtree(self._database)
            (self.folder / _CORRUPT).unlink(missing_ok=True)
        except OSError as error:
            raise StorageFailed(f"task store {self.folder}: {error}") from error

    def _failure(self, error: Exception) -> StrandlineError:
        """Translate RocksDB's error; damage is noted for the next open."""
        if isinstance(error, DbClosedError):
            return StoreClosed(f"task store {self.folder} is closed")
        if _is_damage(error):
            with suppress(OSError):
                if holds(self._lock, self.folder / _LOCK):
                    (self.folder / _CORRUPT).touch()
            return StoreCorrupt(f"task store {self.folder}: {error}")
        return StorageFailed(f"task store {self.folder}: {error}")


def _locked(folder: Path) -> int:
    """The lock of the store in this folder, which is created if it is missing. Raises StoreInUse,
    StorageFailed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StorageFailed(f"task store {folder}: {error}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise StoreInUse(f"task store {folder}: another process or task has it open") from None
    except BaseException:
        os.close(lock)
        raise
    return lock


def holds(lock: int, path: Path) -> bool:
    """True if this open file is still the one at this path: its folder may have been removed."""
    try:
        return os.path.samestat(os.fstat(lock), path.stat())
    except FileNotFoundError:
        return False


class _Range(Iterator[tuple[bytes, bytes]]):
    """Rows of a store. RocksDB's own iterator of pairs treats damage as its end; this one raises.

    It checks the end itself: RocksDB would read the bytes of a bound that this binding has freed.
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
            rows = self._rows = None  # a kept error, with its frames, would keep the database open
            raise self._store._failure(error) from error
        raise StopIteration

    def close(self) -> None:
        """Release the database, which stays open while an iterator does."""
        self._rows = None


def _checkpoint(data: bytes) -> Checkpoint:
    return Checkpoint(*(_CHECKPOINT if len(data) == _CHECKPOINT.size else _OFFSET).unpack(data))


def _is_empty(database: Rdict) -> bool:
    rows = database.iter()
    rows.seek_to_first()
    found = rows.valid()
    rows.status()
    return not found


def _is_damage(error: Exception) -> bool:
    """Whether the data is damaged, and not the machine. RocksDB's errors differ only in their texts; an
    unknown one counts as damage: an empty store only costs a restore, and nothing else would help."""
    text = str(error)
    return not any(message in text for message in _SYSTEM_ERRORS)
