"""The epoch cache of one log on disk: one line per epoch, replaced as a whole (T1, T4)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import google_crc32c

from strandline.broker.core.replication.epochs import EpochCache, EpochEntry
from strandline.broker.storage.state_files.checkpoint import read_whole, write_atomically, write_new
from strandline.ports import Files

EPOCH_FILE: Final = "epochs"
_VERSION: Final = "1"


def write_epochs(directory: Path, epochs: EpochCache, *, files: Files, new: bool = False) -> None:
    """Write the cache into the page cache: it survives the process. Raises OSError.

    It is not synced, as the records that follow are not either. A file that a loss of power damaged is
    rebuilt from the batches, each of which has its epoch. `new`: there is no file yet, so that a kill, too,
    may leave a damaged one: without it the cache would be as empty.
    """
    lines = "".join(f"{entry.epoch} {entry.start_offset}\n" for entry in epochs.entries)
    crc = google_crc32c.value(lines.encode())
    path, content = directory / EPOCH_FILE, f"{_VERSION} {crc:08x}\n{lines}".encode()
    if new:
        write_new(path, content, files=files)
    else:
        write_atomically(path, content, files=files, sync=False)


class EpochFile:
    """The file of a cache that its owner changes."""

    __slots__ = ("_directory", "_epochs", "_files", "_is_new", "_outdated")

    def __init__(self, directory: Path, epochs: EpochCache, files: Files, *, is_new: bool) -> None:
        """The file must hold the cache as it is now. `is_new`: there is none, and the cache is empty."""
        self._is_new = is_new
        self._directory = directory
        self._epochs = epochs
        self._files = files
        self._outdated = False

    def save(self, *, changed: bool) -> bool:
        """Write the file if the cache has changed, now or since the last successful write. Returns True if
        the file was written. Raises OSError."""
        self._outdated = self._outdated or changed
        if not self._outdated:
            return False
        is_new, self._is_new = self._is_new, False  # before the attempt: it may leave a file
        write_epochs(self._directory, self._epochs, files=self._files, new=is_new)
        self._outdated = False
        return True


def read_epochs(directory: Path, *, files: Files) -> EpochCache | None:
    """The cache, or None if there is no file or it is damaged. Raises OSError."""
    try:
        data = read_whole(directory / EPOCH_FILE, files=files)
    except FileNotFoundError:
        return None
    head, _, lines = data.partition(b"\n")
    if head != f"{_VERSION} {google_crc32c.value(lines):08x}".encode():
        return None
    rows = (line.split() for line in lines.decode().splitlines())
    return EpochCache(EpochEntry(int(epoch), int(start)) for epoch, start in rows)
