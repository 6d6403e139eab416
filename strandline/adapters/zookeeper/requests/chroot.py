"""Where the znodes of a cluster lie in ZooKeeper."""

from __future__ import annotations

from dataclasses import replace

from strandline.ports import Operation


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
