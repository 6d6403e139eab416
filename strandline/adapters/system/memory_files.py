"""A file system in memory that can lose unsynced data, fill up and fail, for simulators and tests.

It keeps what the port `Files` promises and no more. After a loss of power, unsynced bytes and names
in unsynced directories may be gone. For each file and each directory separately, the loss begins at
any point after its last sync, also in the middle of a write. Directories are made, renamed and removed
durably at once.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path

from strandline.ports import SyncFailed

Choose = Callable[[int], int]
"""Returns a number from 0 to n: how many of n unsynced parts survive."""

Fault = Callable[[str, Path], int | None]
"""Called before each operation that changes something. It may raise (an OSError, or any exception
that ends the process in a test), or return how many bytes of an append are written before the rest
is lost."""


class _File:
    """One file's bytes: `data` is the current content, `synced` the part that survives, `unsynced`
    the changes in between."""

    __slots__ = ("data", "synced", "unsynced")

    def __init__(self, content: bytes = b"") -> None:
        self.data = bytearray(content)
        self.synced = content
        self.unsynced: list[bytes | int] = []
        """Appended bytes, or the size that the file was truncated to, in order."""

    def append(self, content: bytes) -> None:
        self.data += content
        self.unsynced.append(content)

    def truncate(self, size: int) -> None:
        del self.data[size:]
        self.unsynced.append(size)

    def sync(self) -> None:
        self.synced = bytes(self.data)
        self.unsynced.clear()

    def copy(self) -> _File:
        copied = _File(self.synced)
        copied.data, copied.unsynced = bytearray(self.data), list(self.unsynced)
        return copied

    def after_power_loss(self, choose: Choose) -> _File:
        data = bytearray(self.synced)
        kept = self.unsynced[: choose(len(self.unsynced))]
        for number, change in enumerate(kept, start=1):
            if isinstance(change, int):
                del data[change:]
            else:
                data += change[: choose(len(change))] if number == len(kept) else change
        return _File(bytes(data))


class MemoryFiles:
    """`Files` in memory."""

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault = fault
        self.operations = 0
        """Changes made or attempted, so that a test can iterate over them."""
        self._names: dict[Path, _File] = {}
        self._synced_names: dict[Path, _File] = {}
        self._unsynced_names: list[tuple[Path, _File | None]] = []
        """Names created or changed (their file) or removed (None) since their directory was synced."""
        self._directories: set[Path] = set()
        self._locks: dict[int, Path] = {}
        self._boot = 1
        self._open: dict[int, tuple[Path, _File]] = {}
        self._next_descriptor = 3

    # --- the port ----------------------------------------------------------------------------

    def open(self, path: Path, *, create: bool = False) -> int:
        file = self._names.get(path)
        self._need_descriptor(path)
        if file is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
            self._change("create", path)
            file = _File()
            self._set_name(path, file)
        descriptor = self._new_descriptor()
        self._open[descriptor] = (path, file)
        return descriptor

    def close(self, descriptor: int) -> None:
        if self._locks.pop(descriptor, None) is None:
            del self._open[descriptor]

    def append(self, descriptor: int, parts: Sequence[bytes | memoryview]) -> int:
        path, file = self._open[descriptor]
        content = b"".join(parts)
        written = self._change("append", path)
        file.append(content if written is None else content[:written])
        return len(content) if written is None else min(written, len(content))

    def read(self, descriptor: int, size: int, position: int) -> bytes:
        path, file = self._open[descriptor]
        if self.fault is not None:
            self.fault("read", path)
        return bytes(file.data[position : position + size])

    def truncate(self, descriptor: int, size: int) -> None:
        path, file = self._open[descriptor]
        self._change("truncate", path)
        file.truncate(size)

    def sync(self, descriptor: int) -> None:
        path, file = self._open[descriptor]
        self._sync("sync", path)
        file.sync()

    def sync_directory(self, path: Path) -> None:
        self._need_descriptor(path)
        self._sync("sync_directory", path)
        for name, file in self._unsynced_names:
            if name.parent == path:
                self._apply(self._synced_names, name, file)
        self._unsynced_names = [change for change in self._unsynced_names if change[0].parent != path]

    def make_directory(self, path: Path) -> bool:
        if path in self._names:
            raise FileExistsError(errno.EEXIST, "a file has this path", str(path))
        made = path not in self._directories
        self._directories.update((path, *path.parents))
        return made

    def sizes(self, path: Path) -> dict[str, int]:
        self._need_descriptor(path)
        return {name.name: len(file.data) for name, file in self._names.items() if name.parent == path}

    def rename(self, source: Path, target: Path) -> None:
        self._change("rename", target)
        self._set_name(target, self._names[source])
        self._set_name(source, None)

    def remove(self, path: Path) -> None:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        self._change("remove", path)
        self._set_name(path, None)

    def directories(self, path: Path) -> list[str]:
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", str(path))
        return [each.name for each in sorted(self._directories) if each.parent == path != each]

    def rename_directory(self, source: Path, target: Path) -> None:
        if source not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", str(source))
        if target in self._directories:
            raise FileExistsError(errno.EEXIST, "it exists", str(target))
        self._change("rename_directory", target)

        def moved(path: Path) -> Path:
            return target / path.relative_to(source) if path.is_relative_to(source) else path

        self._names = {moved(path): file for path, file in self._names.items()}
        self._synced_names = {moved(path): file for path, file in self._synced_names.items()}
        self._unsynced_names = [(moved(path), file) for path, file in self._unsynced_names]
        self._directories = {moved(path) for path in self._directories}
        self._open = {number: (moved(path), file) for number, (path, file) in self._open.items()}

    def remove_directory(self, path: Path) -> None:
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", str(path))
        self._change("remove_directory", path)

        def stays(each: Path) -> bool:
            return not each.is_relative_to(path)

        self._names = {name: file for name, file in self._names.items() if stays(name)}
        self._synced_names = {name: file for name, file in self._synced_names.items() if stays(name)}
        self._unsynced_names = [change for change in self._unsynced_names if stays(change[0])]
        self._directories = {each for each in self._directories if stays(each)}

    def lock(self, path: Path) -> int:
        if path in self._locks.values():
            raise BlockingIOError(errno.EAGAIN, "it is locked", str(path))
        self.close(self.open(path, create=True))
        descriptor = self._new_descriptor()
        self._locks[descriptor] = path
        return descriptor

    def boot_id(self, path: Path) -> str:
        return f"boot {self._boot}"

    def volume(self, path: Path) -> str:
        return "disk"

    # --- failures of machines ------------------------------------------------------------------

    def after_crash(self) -> MemoryFiles:
        """A copy as the next process finds it: everything that was written, and nothing open."""
        after = MemoryFiles()
        every = {*self._names.values(), *self._synced_names.values()}
        every.update(file for _, file in self._unsynced_names if file is not None)
        copies = {file: file.copy() for file in every}
        after._names = {name: copies[file] for name, file in self._names.items()}
        after._synced_names = {name: copies[file] for name, file in self._synced_names.items()}
        after._unsynced_names = [
            (name, None if file is None else copies[file]) for name, file in self._unsynced_names
        ]
        after._directories = set(self._directories)
        after._boot = self._boot
        return after

    def after_power_loss(self, choose: Choose) -> MemoryFiles:
        """A copy as the next boot finds it: everything synced, and the part of the rest that
        `choose` selects."""
        after = MemoryFiles()
        names = dict(self._synced_names)
        for directory in sorted({name.parent for name, _ in self._unsynced_names}):
            changes = [change for change in self._unsynced_names if change[0].parent == directory]
            for name, file in changes[: choose(len(changes))]:
                self._apply(names, name, file)
        survivors = {names[name]: names[name].after_power_loss(choose) for name in sorted(names)}
        after._names = {name: survivors[file] for name, file in names.items()}
        after._synced_names = dict(after._names)
        after._directories = set(self._directories)
        after._boot = self._boot + 1
        return after

    def corrupt(self, path: Path, position: int, flip: int = 0xFF) -> None:
        """Flip bits of one byte of a file, as a bad medium does; a sync does not repair it."""
        file = self._names[path]
        file.data[position] ^= flip
        file.sync()

    # --- names and descriptors ---------------------------------------------------------------

    def _new_descriptor(self) -> int:
        descriptor, self._next_descriptor = self._next_descriptor, self._next_descriptor + 1
        return descriptor

    def _change(self, operation: str, path: Path) -> int | None:
        self.operations += 1
        return None if self.fault is None else self.fault(operation, path)

    def _need_descriptor(self, path: Path) -> None:
        if self.fault is not None:
            self.fault("open", path)

    def _sync(self, operation: str, path: Path) -> None:
        try:
            self._change(operation, path)
        except OSError as error:
            raise SyncFailed(*error.args) from error

    def _set_name(self, path: Path, file: _File | None) -> None:
        self._apply(self._names, path, file)
        self._unsynced_names.append((path, file))

    @staticmethod
    def _apply(names: dict[Path, _File], path: Path, file: _File | None) -> None:
        if file is None:
            names.pop(path, None)
        else:
            names[path] = file
