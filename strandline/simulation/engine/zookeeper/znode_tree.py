"""The znodes as one ZooKeeper server has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from zlib import crc32

from strandline.errors import CoordinationError
from strandline.ports import (
    BadVersion,
    Check,
    Create,
    Delete,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SetData,
    Znode,
)

Undo = Callable[[], None]


@dataclass(slots=True)
class _Node:
    data: bytes
    version: int
    czxid: int
    mzxid: int
    owner: int
    names: dict[str, None] = field(default_factory=dict)
    """The children."""
    created: int = 0
    """Children created until now: the number of the next sequential one."""
    names_zxid: int = 0
    """The transaction that last changed `names`."""


class ZnodeTree:
    """Applies the same transactions as every other server, and so has the same znodes."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {"/": _Node(b"", 0, 0, 0, 0)}
        self._ephemerals: dict[int, dict[str, None]] = {}
        """Paths by the session that owns them."""
        self._undo: list[Undo] = []
        self.touched: list[str] = []
        """Paths whose children changed, or which were deleted, since this list was cleared."""

    # --- reads -------------------------------------------------------------------------------

    def get(self, path: str) -> Znode:
        """Raises NoNode."""
        node = self._at(path)
        return Znode(
            node.data, node.version, node.czxid, node.mzxid, node.owner, len(node.names), node.names_zxid
        )

    def children(self, path: str) -> list[str]:
        """In an order that means nothing, as a real server's. Raises NoNode."""
        return sorted(self._at(path).names, key=_scattered)

    def owned(self, session: int) -> list[str]:
        """The ephemeral znodes of a session."""
        return list(self._ephemerals.get(session, ()))

    # --- writes ------------------------------------------------------------------------------

    def apply(self, operation: Operation, session: int, zxid: int) -> str | int | None:
        """Raises NoNode, NodeExists, BadVersion, NotEmpty. Returns as `Coordination.multi` does."""
        self._undo.clear()
        return self._apply(operation, session, zxid)

    def apply_all(self, operations: Sequence[Operation], session: int, zxid: int) -> list[str | int | None]:
        """All or none. Raises MultiFailed."""
        self._undo.clear()
        touched = len(self.touched)
        results: list[str | int | None] = []
        for index, operation in enumerate(operations):
            try:
                results.append(self._apply(operation, session, zxid))
            except CoordinationError as error:
                for undo in reversed(self._undo):
                    undo()
                del self.touched[touched:]
                raise MultiFailed(index, error) from error
        return results

    def end_session(self, session: int, zxid: int) -> None:
        """Delete the ephemeral znodes of a session."""
        self._undo.clear()
        for path in self.owned(session):
            self._delete(path, -1, zxid)

    def _apply(self, operation: Operation, session: int, zxid: int) -> str | int | None:
        match operation:
            case Create():
                return self._create(operation, session if operation.ephemeral else 0, zxid)
            case SetData(path, data, version):
                return self._set(path, data, version, zxid)
            case Delete(path, version):
                self._delete(path, version, zxid)
            case Check(path, version):
                self._at(path, version)
        return None

    def _create(self, create: Create, owner: int, zxid: int) -> str:
        parent_path = _parent(create.path)
        parent = self._at(parent_path)
        if parent.owner:
            raise CoordinationError(f"{parent_path} is ephemeral: it has no children")
        path = f"{create.path}{parent.created:010d}" if create.sequential else create.path
        if path in self._nodes:
            raise NodeExists(f"{path} exists already")
        name = path.rpartition("/")[2]
        self._nodes[path] = _Node(create.data, 0, zxid, zxid, owner)
        before = parent.names_zxid
        parent.names[name] = None
        parent.created += 1
        parent.names_zxid = zxid
        if owner:
            self._ephemerals.setdefault(owner, {})[path] = None
        self.touched.append(parent_path)

        def undo() -> None:
            del self._nodes[path]
            del parent.names[name]
            parent.created -= 1
            parent.names_zxid = before
            if owner:
                del self._ephemerals[owner][path]

        self._undo.append(undo)
        return path

    def _set(self, path: str, data: bytes, version: int, zxid: int) -> int:
        node = self._at(path, version)
        before = node.data, node.version, node.mzxid
        node.data, node.version, node.mzxid = data, node.version + 1, zxid

        def undo() -> None:
            node.data, node.version, node.mzxid = before

        self._undo.append(undo)
        return node.version

    def _delete(self, path: str, version: int, zxid: int) -> None:
        node = self._at(path, version)
        if node.names:
            raise NotEmpty(f"{path} has children")
        parent_path, _, name = path.rpartition("/")
        parent = self._nodes[parent_path or "/"]
        before = parent.names_zxid
        del self._nodes[path]
        del parent.names[name]
        parent.names_zxid = zxid
        if node.owner:
            del self._ephemerals[node.owner][path]
        self.touched += [parent_path or "/", path]

        def undo() -> None:
            self._nodes[path] = node
            parent.names[name] = None
            parent.names_zxid = before
            if node.owner:
                self._ephemerals[node.owner][path] = None

        self._undo.append(undo)

    def _at(self, path: str, version: int = -1) -> _Node:
        node = self._nodes.get(path)
        if node is None:
            raise NoNode(f"{path} does not exist")
        if version not in (-1, node.version):
            raise BadVersion(f"{path} is at version {node.version}, not {version}")
        return node


def _scattered(name: str) -> tuple[int, str]:
    return crc32(name.encode()), name


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
