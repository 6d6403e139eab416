"""A file system in memory that can lose unsynced data, fill up and fail, for simulators and tests.

It keeps what the port `Files` promises and no more. After a loss of power, unsynced bytes and unsynced names
of files and folders may be gone. For each file and each folder separately, the loss begins at any point after
its last sync, also in the middle of a write; bytes before that point may be lost by sectors too.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from strandline.adapters.system.memory_nodes import (
    Choose,
    Copies,
    File,
    Folder,
    Lost,
    Node,
    Survivors,
    none_lost,
)
from strandline.ports import SyncFailed

DISK_BYTES: Final = 1 << 40
"""What the disk says of itself. It never fills; a `Fault` may say that it has."""

Fault = Callable[[str, Path], int | None]
"""Called before each operation that changes something. It may raise (an OSError, or any exception
that ends the process in a test), or return how many bytes of an append are written before the rest
is lost."""


class MemoryFiles:
    """`Files` in memory. The folder of a new file need not exist: it is made, and is durable."""

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault = fault
        self.operations = 0
        """Changes made or attempted, so that a test can iterate over them."""
        self._root = Folder()
        self._locks: dict[int, Path] = {}
        self._boot = 1
        self._open: dict[int, tuple[Path, File]] = {}
        self._next_descriptor = 3

    # --- the port ----------------------------------------------------------------------------

    def open(self, path: Path, *, create: bool = False) -> int:
        file = self._find(path)
        self._need_descriptor(path)
        if isinstance(file, Folder):
            raise IsADirectoryError(errno.EISDIR, "it is a directory", str(path))
        if file is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
            self._change("create", path)
            file = File()
            self._made(path.parent).change({path.name: file})
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
        folder = self._find(path)
        if isinstance(folder, Folder):
            folder.sync()

    def sync_all(self, descriptor: int) -> bool:
        path = self._locks[descriptor] if descriptor in self._locks else self._open[descriptor][0]
        self._sync("sync_all", path)
        self._root.sync_all()
        return True

    def make_directory(self, path: Path) -> bool:
        found = self._find(path)
        if isinstance(found, File):
            raise FileExistsError(errno.EEXIST, "a file has this path", str(path))
        if found is None:
            self._made(path.parent).change({path.name: Folder()})
        return found is None

    def sizes(self, path: Path) -> dict[str, int]:
        self._need_descriptor(path)
        folder = self._find(path)
        entries = folder.entries if isinstance(folder, Folder) else {}
        return {name: len(node.data) for name, node in entries.items() if isinstance(node, File)}

    def rename(self, source: Path, target: Path) -> None:
        self._change("rename", target)
        self._move(source, target)

    def remove(self, path: Path) -> None:
        if not isinstance(self._find(path), File):
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        self._change("remove", path)
        self._made(path.parent).change({path.name: None})

    def directories(self, path: Path) -> list[str]:
        entries = self._existing(path).entries
        return sorted(name for name, node in entries.items() if isinstance(node, Folder))

    def rename_directory(self, source: Path, target: Path) -> None:
        self._existing(source)
        if isinstance(self._find(target), Folder):
            raise FileExistsError(errno.EEXIST, "it exists", str(target))
        self._change("rename_directory", target)
        self._move(source, target)

    def remove_directory(self, path: Path) -> None:
        folder = self._existing(path)
        self._change("remove_directory", path)
        folder.clear()
        self._made(path.parent).change({path.name: None})

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

    def space(self, path: Path) -> tuple[int, int]:
        return DISK_BYTES, DISK_BYTES

    # --- failures of machines ------------------------------------------------------------------

    def after_crash(self) -> MemoryFiles:
        """A copy as the next process finds it: everything that was written, and nothing open."""
        return self._with_root(Copies().of(self._root), self._boot)

    def after_power_loss(self, choose: Choose, lost: Lost = none_lost) -> MemoryFiles:
        """A copy as the next boot finds it: everything synced, and the part of the rest that
        `choose` selects, without the sectors that `lost` selects."""
        return self._with_root(Survivors(choose, lost).of(self._root), self._boot + 1)

    @staticmethod
    def _with_root(root: Node, boot: int) -> MemoryFiles:
        assert isinstance(root, Folder)
        after = MemoryFiles()
        after._root, after._boot = root, boot
        return after

    def corrupt(self, path: Path, position: int, flip: int = 0xFF) -> None:
        """Flip bits of one byte of a file, as a bad medium does; a sync does not repair it."""
        file = self._file(path)
        file.data[position] ^= flip
        file.sync()

    def drop_unsynced(self, path: Path) -> None:
        """Drop the unsynced bytes of a file, as a kernel does whose writes failed; the machine runs on."""
        self._file(path).drop_unsynced()

    def overwrite(self, path: Path, position: int, content: bytes) -> None:
        """Replace bytes of a file, as a write does that the disk put in the wrong place; the size stays."""
        file = self._file(path)
        end = min(position + len(content), len(file.data))
        file.data[position:end] = content[: end - position]
        file.sync()

    def content(self, path: Path, start: int = 0) -> bytes:
        """The bytes of a file from `start` on, also of one that cannot be opened because of a fault."""
        return bytes(self._file(path).data[start:])

    def names(self, path: Path) -> list[str]:
        """The names of a folder's files, also of one that cannot be listed because of a fault."""
        folder = self._find(path)
        entries = folder.entries if isinstance(folder, Folder) else {}
        return [name for name, node in entries.items() if isinstance(node, File)]

    def files(self) -> Iterator[Path]:
        """The paths of all files, in order."""
        yield from _paths(Path("/"), self._root)

    # --- names and descriptors ---------------------------------------------------------------

    def _find(self, path: Path) -> Node | None:
        node: Node | None = self._root
        for name in path.parts[1:] if path.is_absolute() else path.parts:
            node = node.entries.get(name) if isinstance(node, Folder) else None
        return node

    def _existing(self, path: Path) -> Folder:
        folder = self._find(path)
        if not isinstance(folder, Folder):
            raise FileNotFoundError(errno.ENOENT, "no such directory", str(path))
        return folder

    def _file(self, path: Path) -> File:
        file = self._find(path)
        if not isinstance(file, File):
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        return file

    def _made(self, path: Path) -> Folder:
        """The folder of this path. Those that are missing are made, and are durable."""
        folder = self._root
        for name in path.parts[1:] if path.is_absolute() else path.parts:
            node = folder.entries.get(name)
            if isinstance(node, File):
                raise NotADirectoryError(errno.ENOTDIR, "a file has this path", str(path))
            if node is None:
                node = folder.entries[name] = folder.synced[name] = Folder()
            folder = node
        return folder

    def _move(self, source: Path, target: Path) -> None:
        node = self._find(source)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", str(source))
        if source.parent == target.parent:
            self._made(source.parent).change({source.name: None, target.name: node})
        else:
            self._made(target.parent).change({target.name: node})
            self._made(source.parent).change({source.name: None})

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


def _paths(path: Path, folder: Folder) -> Iterator[Path]:
    for name, node in sorted(folder.entries.items()):
        if isinstance(node, Folder):
            yield from _paths(path / name, node)
        else:
            yield path / name
