"""Files and folders in memory that know which part of them is synced, and what a loss of power may leave."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

Choose = Callable[[int], int]
"""Returns a number from 0 to n: how many of n unsynced parts survive."""

Lost = Callable[[int], Collection[int]]
"""Returns some of the numbers below n: which of n unsynced sectors were never written."""

SECTOR_BYTES: Final = 512
"""What a disk writes as a whole."""


def none_lost(count: int) -> Collection[int]:
    """Bytes reach the medium in their order."""
    return ()


class File:
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

    def drop_unsynced(self) -> None:
        """As a kernel does whose writes failed."""
        self.data = bytearray(self.synced)
        self.unsynced.clear()

    def copy(self) -> File:
        copied = File(self.synced)
        copied.data, copied.unsynced = bytearray(self.data), list(self.unsynced)
        return copied

    def after_power_loss(self, choose: Choose, lost: Lost = none_lost) -> File:
        """The file as the next boot finds it: what was synced, and a first part of the later changes. Lost
        sectors of that part are zeros, since a file may get its size before its bytes."""
        data, durable = bytearray(self.synced), len(self.synced)
        kept = self.unsynced[: choose(len(self.unsynced))]
        for number, change in enumerate(kept, start=1):
            if isinstance(change, int):
                del data[change:]
                durable = min(durable, change)
            else:
                data += change[: choose(len(change))] if number == len(kept) else change
        first, end = durable // SECTOR_BYTES, -(-len(data) // SECTOR_BYTES)
        for sector in lost(end - first) if end > first else ():
            begin = max((first + sector) * SECTOR_BYTES, durable)
            stop = min((first + sector + 1) * SECTOR_BYTES, len(data))
            data[begin:stop] = bytes(stop - begin)
        return File(bytes(data))


class Folder:
    """One folder's names: `entries` are the current ones, `synced` those that survive, `unsynced` the
    changes in between. A change sets some names at once; None removes a name."""

    __slots__ = ("entries", "synced", "unsynced")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.synced: dict[str, Node] = {}
        self.unsynced: list[dict[str, Node | None]] = []

    def change(self, names: dict[str, Node | None]) -> None:
        _apply(self.entries, names)
        self.unsynced.append(names)

    def sync(self) -> None:
        for names in self.unsynced:
            _apply(self.synced, names)
        self.unsynced.clear()

    def sync_all(self) -> None:
        """Sync the names, and everything in this folder."""
        self.sync()
        for node in self.entries.values():
            if isinstance(node, Folder):
                node.sync_all()
            else:
                node.sync()

    def clear(self) -> None:
        """Remove every name, also those in folders of this one."""
        for name, node in list(self.entries.items()):
            if isinstance(node, Folder):
                node.clear()
            self.change({name: None})


Node = File | Folder


def _apply(entries: dict[str, Node], names: dict[str, Node | None]) -> None:
    for name, node in names.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class Copies:
    """Copies a tree. A file that has several names, or that the synced state has too, stays one file."""

    def __init__(self) -> None:
        self._made: dict[Node, Node] = {}

    def of(self, node: Node) -> Node:
        made = self._made.get(node)
        if made is None:
            made = self._made[node] = node.copy() if isinstance(node, File) else Folder()
            if isinstance(node, Folder) and isinstance(made, Folder):
                made.entries = {name: self.of(each) for name, each in node.entries.items()}
                made.synced = {name: self.of(each) for name, each in node.synced.items()}
                made.unsynced = [
                    {name: None if each is None else self.of(each) for name, each in names.items()}
                    for names in node.unsynced
                ]
        return made


class Survivors:
    """Draws what a loss of power leaves of a tree."""

    def __init__(self, choose: Choose, lost: Lost) -> None:
        self._choose = choose
        self._lost = lost
        self._made: dict[Node, Node] = {}

    def of(self, node: Node) -> Node:
        made = self._made.get(node)
        if made is None:
            if isinstance(node, File):
                made = node.after_power_loss(self._choose, self._lost)
            else:
                made = self._folder(node)
            self._made[node] = made
        return made

    def _folder(self, folder: Folder) -> Folder:
        entries = dict(folder.synced)
        for names in folder.unsynced[: self._choose(len(folder.unsynced))]:
            _apply(entries, names)
        made = Folder()
        made.entries = {name: self.of(entries[name]) for name in sorted(entries)}
        made.synced = dict(made.entries)
        return made
