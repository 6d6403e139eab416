"""The epoch cache of one log on disk: one line per epoch, replaced as a whole (T1, T4)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import google_crc32c

from strandline.broker.core.replication.epochs import EpochCache, EpochEntry
from strandline.broker.storage.state_files.checkpoint import read_whole, write_atomically
from strandline.ports import Files

EPOCH_FILE: Final = "epochs"
_VERSION: Final = "1"


def write_epochs(directory: Path, epochs: EpochCache, *, files: Files) -> None:
    """Write the cache into the page cache: it survives the process. Raises OSError.

    It is not synced, as the records that follow are not either. A file that a loss of power damaged is
    rebuilt from the batches, each of which has its epoch.
    """
    lines = "".join(f"{entry.epoch} {entry.start_offset}\n" for entry in epochs.entries)
    crc = google_crc32c.value(lines.encode())
    write_atomically(
        directory / EPOCH_FILE, f"{_VERSION} {crc:08x}\n{lines}".encode(), files=files, sync=False
    )


class EpochFile:
    """The file of a cache that its owner changes."""

    __slots__ = ("_directory", "_epochs", "_files", "_outdated")

    def __init__(self, directory: Path, epochs: EpochCache, files: Files) -> None:
        """The file must hold the cache as it is now."""
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
        write_epochs(self._directory, self._epochs, files=self._files)
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
