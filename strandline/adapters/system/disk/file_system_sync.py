"""Syncs a whole file system in one call, where the kernel reports every write that failed (Linux `syncfs`).

A kernel before 5.8 reports no failure of `syncfs`. Of the file systems, network file systems and those of a
process (FUSE) may not pass the call on, and an overlay does not report failures of the disk below it. There
each file is synced: `fsync` keeps its promise everywhere.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from functools import cache
from typing import Final

_KERNEL_MIN: Final = (5, 8)
_EXT4: Final = 0xEF53
_XFS: Final = 0x58465342
_BTRFS: Final = 0x9123683E
_KINDS: Final = frozenset({_EXT4, _XFS, _BTRFS})
"""File systems of this machine's disks whose `syncfs` waits for the medium and reports failed writes."""

_STATFS_BYTES: Final = 256
"""More than `struct statfs` has on any platform. The kind of the file system is its first field."""
_KIND_MASK: Final = 0xFFFF_FFFF


def can_sync_file_system(descriptor: int) -> bool:
    """True if `sync_file_system` keeps the promise of `fsync` for every file beside this one."""
    library = _library()
    if library is None:
        return False
    found = ctypes.create_string_buffer(_STATFS_BYTES)
    if library.fstatfs(descriptor, found):
        return False
    return ctypes.c_long.from_buffer(found).value & _KIND_MASK in _KINDS


def sync_file_system(descriptor: int) -> None:
    """Wait until everything written to the file system of this open file is on the medium.

    Raises OSError, also for a write that failed since the descriptor was opened or last used for this.
    """
    library = _library()
    assert library is not None, "`can_sync_file_system` comes first"
    if library.syncfs(descriptor):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


@cache
def _library() -> ctypes.CDLL | None:
    """The C library, if it and the kernel have what is needed."""
    if sys.platform != "linux" or not is_recent(platform.release()):
        return None
    library = ctypes.CDLL(None, use_errno=True)
    return library if hasattr(library, "syncfs") and hasattr(library, "fstatfs") else None


def is_recent(release: str) -> bool:
    """True if this release of the kernel reports failures of `syncfs`."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return found is not None and (int(found[1]), int(found[2])) >= _KERNEL_MIN
