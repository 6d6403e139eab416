"""A ZooKeeper in memory that fulfils the port `Coordination`: one tree, any number of sessions.

Everything happens at once and in order; what a test wants to happen late or not at all it says with
`hold` and `lose`.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.errors import CoordinationError
from strandline.ids import TopicId
from strandline.ports import (
    BadVersion,
    Check,
    ConnectionLost,
    Create,
    Delete,
    LinkState,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SessionEnded,
    SetData,
    Znode,
)
from strandline.vocabulary.metadata import NEVER_LED


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


@dataclass(slots=True)
class _Watch:
    session: MemorySession
    path: str
    listener: Callable[[list[str]], None]


class ZnodeTree:
    """The server's tree."""

    def __init__(self) -> None:
        self.nodes: dict[str, Znode] = {"/": Znode(b"", 0, 0, 0, 0)}
        self.meanwhile: Callable[[Sequence[Operation]], object] = lambda operations: None
        """Writes of other clients just before a multi is taken: a race that no session of a test could
        win."""
        self.zxid = 0
        self._sequence = 0
        self._sessions = 0
        self._watches: list[_Watch] = []

    def add_topics(self, count: int, partitions: int) -> list[str]:
        """Topics whose partitions never had leaders; their names."""
        names = [f"topic-{number}" for number in range(count)]
        data: dict[str, bytes] = {}
        for name in names:
            data[znodes.topic(name)] = znodes.dump_topic(znodes.TopicNode(TopicId(name), partitions, {}))
            for number in range(partitions):
                data[znodes.replicas(name, number)] = znodes.dump_replicas((1,))
                data[znodes.isr(name, number)] = isr_znodes.dump_isr(NEVER_LED)
        self.nodes |= {path: Znode(each, 0, 0, 0, 0) for path, each in data.items()}
        return names

    def open_session(self) -> MemorySession:
        self._sessions += 1
        return MemorySession(self, self._sessions)

    def children(self, path: str) -> list[str]:
        if path not in self.nodes:
            raise NoNode(path)
        return [p.rpartition("/")[2] for p in self.nodes if p != "/" and _parent(p) == path]

    def apply(self, operation: Operation, owner: int) -> str | int | None:
        """Raises what a server answers."""
        self.zxid += 1
        match operation:
            case Create(path, data, ephemeral, sequential):
                return self._create(path, data, owner if ephemeral else 0, sequential)
            case SetData(path, data, version):
                node = self._at(path, version)
                self.nodes[path] = replace(node, data=data, version=node.version + 1, mzxid=self.zxid)
                return node.version + 1
            case Delete(path, version):
                self._at(path, version)
                if self.children(path):
                    raise NotEmpty(path)
                del self.nodes[path]
                self._changed(_parent(path))
            case Check(path, version):
                self._at(path, version)
        return None

    def apply_all(self, operations: Sequence[Operation], owner: int) -> list[str | int | None]:
        self.meanwhile(operations)
        before = dict(self.nodes)
        results: list[str | int | None] = []
        for index, operation in enumerate(operations):
            try:
                results.append(self.apply(operation, owner))
            except CoordinationError as error:
                self.nodes = before
                raise MultiFailed(index, error) from error
        return results

    def expire(self, session: int) -> None:
        self.zxid += 1
        for path in [path for path, node in self.nodes.items() if node.ephemeral_owner == session]:
            del self.nodes[path]
            self._changed(_parent(path))

    def watch(self, session: MemorySession, path: str, listener: Callable[[list[str]], None]) -> None:
        watch = _Watch(session, path, listener)
        self._watches.append(watch)
        self._tell(watch)

    def _at(self, path: str, version: int) -> Znode:
        node = self.nodes.get(path)
        if node is None:
            raise NoNode(path)
        if version not in (-1, node.version):
            raise BadVersion(f"{path} is at version {node.version}, not {version}")
        return node

    def _create(self, path: str, data: bytes, owner: int, sequential: bool) -> str:
        if sequential:
            self._sequence += 1
            path = f"{path}{self._sequence:010d}"
        if path in self.nodes:
            raise NodeExists(path)
        if _parent(path) not in self.nodes:
            raise NoNode(_parent(path))
        self.nodes[path] = Znode(data, 0, self.zxid, self.zxid, owner)
        self._changed(_parent(path))
        return path

    def _changed(self, path: str) -> None:
        if path in self.nodes:
            self.nodes[path] = replace(self.nodes[path], children_zxid=self.zxid)
        for watch in self._watches:
            if watch.path == path:
                self._tell(watch)

    def _tell(self, watch: _Watch) -> None:
        if watch.session.state is LinkState.CONNECTED and watch.path in self.nodes:
            asyncio.get_running_loop().call_soon(watch.listener, self.children(watch.path))


@dataclass(slots=True)
class _Disturbance:
    """The fate of the next write of one kind."""

    kind: type[Operation] | None
    """None: the next `multi`."""
    applied: bool = True
    lost: bool = False
    held: asyncio.Event | None = None
    reached: asyncio.Event | None = None
    then: Callable[[], object] = lambda: None
    """What happens before the loss is noticed."""


class MemorySession:
    """Fulfils `Coordination`."""

    def __init__(self, tree: ZnodeTree, session_id: int) -> None:
        self.session_id = session_id
        self.session_timeout_s = 3.0
        self.state = LinkState.CONNECTED
        self.reads: Counter[str] = Counter()
        """How often each path was read."""
        self.most_in_flight = 0
        """The most reads of znodes that waited for their answers at once."""
        self.multis: list[tuple[Operation, ...]] = []
        """The writes that were made together, with any outcome."""
        self._tree = tree
        self._in_flight = 0
        self._listeners: list[Callable[[LinkState], None]] = []
        self._ended = asyncio.Event()
        self._disturbances: deque[_Disturbance] = deque()

    @property
    def zxid(self) -> int:
        return self._tree.zxid

    # --- what a test does to it --------------------------------------------------------------

    def lose(
        self,
        kind: type[Operation] | None = None,
        *,
        applied: bool,
        then: Callable[[], object] = lambda: None,
    ) -> None:
        """The next such write meets a broken connection, before or after the server took it (E9). `then`
        happens before the client notices the latter."""
        self._disturbances.append(_Disturbance(kind, applied=applied, lost=True, then=then))

    def hold(self, kind: type[Operation] | None = None) -> tuple[asyncio.Event, asyncio.Event]:
        """The next such write is taken, its reply waits: (set once it was taken, set it to continue)."""
        held, reached = asyncio.Event(), asyncio.Event()
        self._disturbances.append(_Disturbance(kind, held=held, reached=reached))
        return reached, held

    def expire(self) -> None:
        self._tree.expire(self.session_id)
        self._ended.set()
        self._enter(LinkState.ENDED)

    def reconnect(self) -> None:
        """ZooKeeper's leader is another one, so each connection breaks."""
        self._enter(LinkState.SUSPENDED)
        self._enter(LinkState.CONNECTED)

    def _enter(self, state: LinkState) -> None:
        self.state = state
        for listener in self._listeners:
            listener(state)

    # --- the port ----------------------------------------------------------------------------

    def on_state(self, listener: Callable[[LinkState], None]) -> None:
        self._listeners.append(listener)

    async def wait_ended(self) -> None:
        await self._ended.wait()

    async def get(self, path: str) -> Znode:
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            await self._alive()
        finally:
            self._in_flight -= 1
        self.reads[path] += 1
        if path not in self._tree.nodes:
            raise NoNode(path)
        return self._tree.nodes[path]

    async def exists(self, path: str) -> Znode | None:
        await self._alive()
        node = self._tree.nodes.get(path)
        return None if node is None else replace(node, children=len(self._tree.children(path)))

    async def children(self, path: str) -> list[str]:
        await self._alive()
        return self._tree.children(path)

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        return str(await self._write(Create(path, data, ephemeral, sequential)))

    async def ensure_path(self, path: str) -> None:
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts) + 1):
            prefix = "/" + "/".join(parts[:depth])
            if await self.exists(prefix) is None:
                await self.create(prefix)

    async def set(self, path: str, data: bytes, *, version: int = -1) -> int:
        written = await self._write(SetData(path, data, version))
        assert isinstance(written, int)
        return written

    async def delete(self, path: str, *, version: int = -1) -> None:
        await self._write(Delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        self.multis.append(tuple(operations))
        await self._alive()
        disturbance = self._disturbance(None)
        if not disturbance.applied:
            raise ConnectionLost("before the server took it")
        results = self._tree.apply_all(operations, self.session_id)
        await self._suffer(disturbance)
        return results

    async def sync(self, path: str = "/") -> None:
        await self._alive()

    def watch_children(self, path: str, listener: Callable[[list[str]], None]) -> None:
        self._tree.watch(self, path, listener)

    # --- inside ------------------------------------------------------------------------------

    async def _alive(self) -> None:
        await asyncio.sleep(0)
        if self.state is LinkState.ENDED:
            raise SessionEnded(f"session {self.session_id}")

    async def _write(self, operation: Operation) -> str | int | None:
        await self._alive()
        disturbance = self._disturbance(type(operation))
        if not disturbance.applied:
            raise ConnectionLost("before the server took it")
        result = self._tree.apply(operation, self.session_id)
        await self._suffer(disturbance)
        return result

    def _disturbance(self, kind: type[Operation] | None) -> _Disturbance:
        if self._disturbances and self._disturbances[0].kind is kind:
            return self._disturbances.popleft()
        return _Disturbance(kind)

    async def _suffer(self, disturbance: _Disturbance) -> None:
        if disturbance.held is not None and disturbance.reached is not None:
            disturbance.reached.set()
            await disturbance.held.wait()
        if disturbance.lost:
            disturbance.then()
            raise ConnectionLost("after the server took it")
        if self.state is LinkState.ENDED:
            raise SessionEnded(f"session {self.session_id}")
