"""The operating system's files as the port `Files`."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from strandline.adapters.system.disk.file_system_sync import can_sync_file_system, sync_file_system
from strandline.adapters.system.disk.volume import volume_identity
from strandline.ports import NO_DESCRIPTORS, SyncFailed

_READ_APPEND: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
_LOCK: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
_MODE: Final = 0o644

Opened = TypeVar("Opened")


class DescriptorReserve:
    """Descriptors reserved for files, so that connections cannot take the last ones.

    Each is open on /dev/null. When a file cannot be opened, one is closed and the file takes its
    place; closing a file later refills the reserve. It may be used by any thread.
    """

    def __init__(self) -> None:
        self._size = 0
        self._held: list[int] = []
        self._lock = threading.Lock()

    def keep(self, size: int) -> None:
        """Hold this number from now on, as far as the system has them."""
        self._size = size
        self.fill()

    def fill(self) -> None:
        """Refill the reserve, if descriptors are available."""
        if len(self._held) >= self._size:
            return
        with self._lock, suppress(OSError):
            while len(self._held) < self._size:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def lend(self) -> bool:
        """Close one of the held descriptors; False if none is left."""
        with self._lock:
            if not self._held:
                return False
            os.close(self._held.pop())
            return True


class SystemFiles:
    """The `Files` of this machine. One instance serves the whole process."""

    __slots__ = ("reserve",)

    def __init__(self) -> None:
        self.reserve = DescriptorReserve()
        """Empty until the process sets its size."""

    def open(self, path: Path, *, create: bool = False) -> int:
        flags = _READ_APPEND | os.O_CREAT if create else _READ_APPEND
        return self._opened(lambda: os.open(path, flags, _MODE))

    def close(self, descriptor: int) -> None:
        os.close(descriptor)
        self.reserve.fill()

    def append(self, descriptor: int, parts: Sequence[bytes | memoryview]) -> int:
        return os.writev(descriptor, parts)

    def read(self, descriptor: int, size: int, position: int) -> bytes:
        return os.pread(descriptor, size, position)

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        _sync(os.fdatasync, descriptor)

    def sync_directory(self, path: Path) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = self._opened(lambda: os.open(path, flags))
        try:
            _sync(os.fsync, descriptor)
        finally:
            self.close(descriptor)

    def sync_all(self, descriptor: int) -> bool:
        if not can_sync_file_system(descriptor):
            return False
        _sync(sync_file_system, descriptor)
        return True

    def make_directory(self, path: Path) -> bool:
        try:
            path.mkdir()
        except FileNotFoundError:
            if self.make_directory(path.parent):
                self.sync_directory(path.parent.parent)
            return self.make_directory(path)
        except FileExistsError:
            if not path.is_dir():
                raise
            return False
        return True

    def sizes(self, path: Path) -> dict[str, int]:
        sizes: dict[str, int] = {}
        with self._opened(lambda: os.scandir(path)) as entries:
            for entry in entries:
                # A flush in another thread may have renamed a file after it was listed.
                with suppress(FileNotFoundError):
                    if entry.is_file():
                        sizes[entry.name] = entry.stat().st_size
        return sizes

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        os.unlink(path)

    def directories(self, path: Path) -> list[str]:
        with self._opened(lambda: os.scandir(path)) as entries:
            return [entry.name for entry in entries if entry.is_dir()]

    def rename_directory(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def remove_directory(self, path: Path) -> None:
        shutil.rmtree(path)

    def lock(self, path: Path) -> int:
        descriptor = self._opened(lambda: os.open(path, _LOCK, _MODE))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close(descriptor)
            raise
        return descriptor

    def boot_id(self, path: Path) -> str:
        return path.read_text().strip()

    def volume(self, path: Path) -> str:
        return volume_identity(path)

    def space(self, path: Path) -> tuple[int, int]:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def _opened(self, attempt: Callable[[], Opened]) -> Opened:
        """Open with a descriptor of the reserve if there is no other."""
        while True:
            try:
                return attempt()
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS or not self.reserve.lend():
                    raise


def _sync(sync: Callable[[int], None], descriptor: int) -> None:
    try:
        sync(descriptor)
    except OSError as error:
        raise SyncFailed(*error.args) from error


SYSTEM_FILES: Final = SystemFiles()


def keep_files_private() -> None:
    """From now on this process, and those that it starts, make files for their own user alone."""
    os.umask(0o077)
