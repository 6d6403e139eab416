"""The system's file system, as the port `Files` wants it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_READ_APPEND: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
_MODE: Final = 0o644


class SystemFiles:
    """`Files` of this machine. Holds no state; one instance serves everybody."""

    __slots__ = ()

    def open(self, path: Path, *, create: bool = False) -> int:
        return os.open(path, _READ_APPEND | os.O_CREAT if create else _READ_APPEND, _MODE)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def append(self, descriptor: int, parts: Sequence[bytes | memoryview]) -> int:
        return os.writev(descriptor, parts)

    def read(self, descriptor: int, size: int, position: int) -> bytes:
        return os.pread(descriptor, size, position)

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        os.fdatasync(descriptor)

    def sync_directory(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def make_directory(self, path: Path) -> bool:
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            return False
        return True

    def sizes(self, path: Path) -> dict[str, int]:
        sizes: dict[str, int] = {}
        with os.scandir(path) as entries:
            for entry in entries:
                # A flush in another thread may have renamed what was listed a moment ago.
                with suppress(FileNotFoundError):
                    if entry.is_file():
                        sizes[entry.name] = entry.stat().st_size
        return sizes

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        os.unlink(path)


SYSTEM_FILES: Final = SystemFiles()
