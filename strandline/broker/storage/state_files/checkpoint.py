"""Small files that are replaced as a whole: a reader sees the old content or the new one."""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from strandline.errors import StorageFailed
from strandline.ports import Files

PARTIAL_SUFFIX: Final = ".partial"
"""The suffix of a file that is being written; one that exists at start is left over from a crash."""

_READ_BYTES: Final = 1 << 20


def write_atomically(path: Path, data: bytes, *, files: Files, sync: bool = True) -> None:
    """Replace a file's content. With `sync`, the new content has survived a loss of power on return.

    Raises OSError; then the old content is still in place.
    """
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    descriptor = files.open(partial, create=True)
    try:
        files.truncate(descriptor, 0)
        _append_whole(descriptor, data, path, files)
        if sync:
            files.sync(descriptor)
    finally:
        files.close(descriptor)
    files.rename(partial, path)
    if sync:
        files.sync_directory(path.parent)


def write_new(path: Path, data: bytes, *, files: Files) -> None:
    """Write a file that does not exist, unsynced. A crash may leave a part of it, so it is only for files
    whose reader recognises a part. Raises OSError."""
    descriptor = files.open(path, create=True)
    try:
        _append_whole(descriptor, data, path, files)
    finally:
        files.close(descriptor)


def _append_whole(descriptor: int, data: bytes, path: Path, files: Files) -> None:
    """Write the content of an empty file."""
    written = files.append(descriptor, (data,)) if data else 0
    if written != len(data):
        files.truncate(descriptor, 0)  # else it holds the last free bytes
        raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes fit", str(path))


def read_whole(path: Path, *, files: Files) -> bytes:
    """A file's content. Raises OSError, FileNotFoundError among them."""
    descriptor = files.open(path)
    try:
        parts: list[bytes] = []
        position = 0
        while part := files.read(descriptor, _READ_BYTES, position):
            parts.append(part)
            position += len(part)
        return b"".join(parts)
    finally:
        files.close(descriptor)


class Checkpoint:
    """Offsets by name, on disk: high watermarks and the like.

    Writing some entries keeps the others, even those of folders that are missing at present (H7). A write may
    run in a thread while an entry is forgotten: the two replace the file one after the other.
    """

    def __init__(self, path: Path, *, files: Files) -> None:
        """Reads the file, if there is one. Raises StorageFailed if it is damaged: to take an offset for zero
        would be a guess, and a wrong one loses records (H7)."""
        self._path = path
        self._files = files
        self._entries = self._read()
        self._forgotten: set[str] = set()
        """Dropped entries that the file may still hold until its next write."""
        self._lock = threading.Lock()

    def get(self, name: str) -> int | None:
        return None if name in self._forgotten else self._entries.get(name)

    def write(self, entries: Mapping[str, int]) -> None:
        """Set these entries and replace the file. Raises OSError; then nothing has changed."""
        self.update(lambda: entries)

    def update(self, read: Callable[[], Mapping[str, int]]) -> None:
        """`write` what `read` returns once no other write runs, so that it never undoes a later `lower`."""
        with self._lock:
            gone = frozenset(self._forgotten)
            kept = {name: value for name, value in self._entries.items() if name not in gone}
            self._replace(kept | {name: value for name, value in read().items() if name not in gone})
            self._forgotten -= gone

    def lower(self, entries: Mapping[str, int]) -> None:
        """Set those of these entries that are lower than in the file. Raises OSError; then nothing has
        changed."""
        with self._lock:
            before = self._entries
            lower = {name: value for name, value in entries.items() if value < before.get(name, 0)}
            self._replace({**before, **lower})

    def forget(self, name: str) -> None:
        """Drop an entry. The file follows at its next write, so a thousand dropped entries cost one write."""
        self._forgotten.add(name)

    def begin(self, name: str) -> None:
        """Begin a new log of this name: an earlier log's entry is removed from the file. Raises OSError."""
        if name in self._forgotten or name in self._entries:
            self._forgotten.add(name)
            self.write({})
            self._forgotten.discard(name)

    def _replace(self, entries: dict[str, int]) -> None:
        if entries != self._entries:
            content = json.dumps({"version": 1, "offsets": entries}, separators=(",", ":")).encode()
            write_atomically(self._path, content, files=self._files)
            self._entries = entries

    def _read(self) -> dict[str, int]:
        try:
            data = read_whole(self._path, files=self._files)
        except FileNotFoundError:
            return {}
        try:
            return {str(name): int(offset) for name, offset in json.loads(data)["offsets"].items()}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StorageFailed(f"checkpoint {self._path} is damaged ({error!r}): {data[:80]!r}") from None
