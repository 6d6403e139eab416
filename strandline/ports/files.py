"""The file system."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)
"""The errno values if a file cannot be opened because this process, or the system, has too many
open files."""
NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
"""The errno values if a file cannot grow because the disk, or a quota, is full."""


class SyncFailed(OSError):
    """A sync failed: the unsynced data may be lost even if reads still return it (CORRECTNESS E3)."""


class Files(Protocol):
    """The file system operations that services need. Every method raises OSError as the system does.

    Files are append-only: a write always appends. A descriptor is the value that `open` returned.
    Written data survives a crash of the process. It survives a loss of power only after `sync` (for
    bytes) and `sync_directory` (for created, renamed and deleted names).
    """

    def open(self, path: Path, *, create: bool = False) -> int:
        """Returns a descriptor for reads and appends. Raises FileNotFoundError unless `create`."""
        ...

    def close(self, descriptor: int) -> None: ...

    def append(self, descriptor: int, parts: Sequence[bytes | memoryview]) -> int:
        """Write all parts at the end in one call. Returns the number of bytes written, which may be fewer."""
        ...

    def read(self, descriptor: int, size: int, position: int) -> bytes:
        """Read up to `size` bytes at a position; fewer only at the end of the file."""
        ...

    def truncate(self, descriptor: int, size: int) -> None: ...

    def sync(self, descriptor: int) -> None:
        """Wait until the file's bytes and its size are on the medium. Raises SyncFailed."""
        ...

    def sync_directory(self, path: Path) -> None:
        """Wait until the directory's entries are on the medium. Raises SyncFailed, and OSError if
        it cannot be opened."""
        ...

    def sync_all(self, descriptor: int) -> bool:
        """As `sync` and `sync_directory` of everything on the disk that has this open file. False, with
        nothing done, if the system cannot do this, or would not report each failed write. Raises SyncFailed,
        also for a write of any file there that failed since the descriptor was opened."""
        ...

    def make_directory(self, path: Path) -> bool:
        """Create a directory with its parents; False if it existed. Raises FileExistsError if a file has
        its path. Its parents survive a loss of power then, and its own name after `sync_directory`."""
        ...

    def sizes(self, path: Path) -> dict[str, int]:
        """The names of the files in a directory, with their sizes in bytes."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Replace `target` by `source`, atomically."""
        ...

    def remove(self, path: Path) -> None: ...

    def directories(self, path: Path) -> list[str]:
        """The names of the directories in a directory, in no particular order."""
        ...

    def rename_directory(self, source: Path, target: Path) -> None:
        """Give a directory another path. `target` must not exist."""
        ...

    def remove_directory(self, path: Path) -> None:
        """Remove a directory with everything in it."""
        ...

    def lock(self, path: Path) -> int:
        """Take the lock that a file stands for; the file is created. Returns a descriptor: to close it
        releases the lock, and so does the end of the process. Raises BlockingIOError if the lock is taken."""
        ...

    def boot_id(self, path: Path) -> str:
        """Identifies the time since the machine was started. The system has it in the file `path`."""
        ...

    def volume(self, path: Path) -> str:
        """Identifies the attachment of the disk below a directory: it is another one once the disk was
        detached. "" if that is unknown."""
        ...

    def space(self, path: Path) -> tuple[int, int]:
        """Bytes of the disk below a directory, and those of them that are free for this process."""
        ...
