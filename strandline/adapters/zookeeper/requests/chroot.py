"""Where the znodes of a cluster lie in ZooKeeper, and how large what is written there may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from strandline.config.limits import MULTI_BYTES_MAX, ZNODE_BYTES_MAX
from strandline.ports import Create, Operation, SetData


class Chroot:
    """The path under which all znodes of a cluster are; empty: the top."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")

    def absolute(self, path: str) -> str:
        """Raises ValueError if the path does not begin with a slash."""
        if not path.startswith("/"):
            raise ValueError(f"a znode's path begins with a slash: {path!r}")
        return (self.root + path).rstrip("/") or "/"

    def relative(self, path: str) -> str:
        return path[len(self.root) :] or "/"

    def of(self, operation: Operation) -> Operation:
        """The operation with its absolute path."""
        path = self.absolute(operation.path)
        return replace(operation, path=path) if self.root else operation


def check_size(path: str, data: bytes) -> None:
    """Raises ValueError if no znode can hold this."""
    if len(data) > ZNODE_BYTES_MAX:
        raise ValueError(f"{path}: {len(data)} bytes; a znode holds at most {ZNODE_BYTES_MAX}")


def check_multi(operations: Sequence[Operation]) -> None:
    """Raises ValueError if this is more than ZooKeeper takes at once."""
    size = 0
    for operation in operations:
        if isinstance(operation, Create | SetData):
            check_size(operation.path, operation.data)
            size += len(operation.path) + len(operation.data)
    if size > MULTI_BYTES_MAX:
        raise ValueError(f"a multi of {size} bytes; at most {MULTI_BYTES_MAX} fit")
