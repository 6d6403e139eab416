"""A ZooKeeper that answers when a test says so: one tree, sessions whose requests wait to be taken.

A session's requests are taken and answered in their order, as by a server; those of different sessions in any
order. A connection that breaks takes the requests in flight with it: the server had taken the first few of
them, and not the others.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol, TypeVar

from strandline.errors import CoordinationError
from strandline.ports import (
    ConnectionLost,
    Create,
    Delete,
    LinkState,
    NoNode,
    Operation,
    SessionEnded,
    SetData,
    Znode,
)
from tests.simulation.znode_tree import MemorySession, ZnodeTree

T = TypeVar("T")


class Observer(Protocol):
    """Sees each write as the server takes it."""

    def relaxed(self, operations: Sequence[Operation]) -> Sequence[Operation]:
        """The server's version of these operations: a broken rule may be a check that it omits."""
        ...

    def before(self, session: SimulatedSession, operations: Sequence[Operation]) -> None: ...

    def after(self, session: SimulatedSession, operations: Sequence[Operation]) -> None: ...


class _Fate(Enum):
    TAKEN = "taken"
    LOST_BEFORE = "the connection broke before the server took it"
    LOST_AFTER = "the connection broke before the answer came"


@dataclass(slots=True)
class _Waiting:
    future: asyncio.Future[_Fate]
    write: Callable[[], object] | None
    """The server's action when it takes it; None for a read, and for an answer."""


class SimulatedZooKeeper:
    """The server, and every session that there was."""

    def __init__(self, observer: Observer) -> None:
        self.tree = ZnodeTree()
        self.sessions: list[SimulatedSession] = []
        self._observer = observer

    def open_session(self, owner: str) -> SimulatedSession:
        session = SimulatedSession(self.tree, len(self.sessions) + 1, owner, self._observer)
        self.sessions.append(session)
        return session

    def open_sessions(self) -> list[SimulatedSession]:
        return [session for session in self.sessions if session.state is not LinkState.ENDED]


class SimulatedSession(MemorySession):
    """Fulfils `Coordination`; the second part is what a walk does to it."""

    def __init__(self, tree: ZnodeTree, session_id: int, owner: str, observer: Observer) -> None:
        super().__init__(tree, session_id)
        self.owner = owner
        self.events: dict[str, Callable[[list[str]], None]] = {}
        """Watches that fired, by path, whose listeners have not been called yet."""
        self._observer = observer
        self._waiting: deque[_Waiting] = deque()
        self._watched: dict[str, Callable[[list[str]], None]] = {}
        self._expired = False
        self._dead = False

    # --- what a walk does to it ----------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        return self.state is LinkState.CONNECTED and bool(self._waiting)

    def take(self) -> None:
        """The server takes the oldest request, or its oldest answer arrives."""
        if self._expired:
            self.learn_end()
        elif self._waiting:
            self._decide(self._waiting.popleft(), _Fate.TAKEN)

    def tell(self, path: str, *, lost: bool = False) -> None:
        """A watch's event arrives, or never does."""
        listener = self.events.pop(path)
        if not lost and self.state is LinkState.CONNECTED and path in self._tree.nodes:
            listener(self._tree.children(path))

    def disconnect(self, taken: int) -> None:
        """The server had taken this number of the requests in flight."""
        if self.state is not LinkState.CONNECTED:
            return
        self._change_link(LinkState.SUSPENDED)
        waiting, self._waiting = self._waiting, deque()
        for number, each in enumerate(waiting):
            self._decide(each, _Fate.LOST_AFTER if number < taken else _Fate.LOST_BEFORE)

    def connect(self) -> None:
        """Connect again. Watches are set anew, and report the present state."""
        if self._expired:
            self.learn_end()
        elif self.state is LinkState.SUSPENDED:
            self._change_link(LinkState.CONNECTED)
            self.events.update(self._watched)

    def expire_at_server(self) -> None:
        """Its ephemeral znodes go; whose session it is learns that at the next answer."""
        self._expired = True
        self._tree.expire(self.session_id)

    def close_at_server(self) -> None:
        """Its process ended it, or the library did because it could not continue."""
        self.expire_at_server()
        self.learn_end()

    def learn_end(self) -> None:
        self._expired = True
        if self.state is not LinkState.ENDED:
            self.expire()
            waiting, self._waiting = self._waiting, deque()
            for each in waiting:
                if not each.future.done():
                    each.future.set_exception(SessionEnded(f"session {self.session_id}"))

    def die(self, taken: int) -> None:
        """Its process is gone; the server had taken this number of the requests in flight."""
        self.state = LinkState.SUSPENDED
        waiting, self._waiting = self._waiting, deque()
        for each in list(waiting)[:taken]:
            self._write_unheard(each)
        self._dead = True

    def _change_link(self, state: LinkState) -> None:
        self.state = state
        for listener in self._listeners:
            listener(state)

    def _decide(self, each: _Waiting, fate: _Fate) -> None:
        if not each.future.done():
            each.future.set_result(fate)

    def _write_unheard(self, each: _Waiting) -> None:
        if each.write is not None and not self._expired:
            with contextlib.suppress(CoordinationError):
                each.write()

    # --- the port ------------------------------------------------------------------------------

    async def get(self, path: str) -> Znode:
        return await self._read(lambda: self._node(path))

    async def exists(self, path: str) -> Znode | None:
        def look() -> Znode | None:
            node = self._tree.nodes.get(path)
            return None if node is None else replace(node, children=len(self._tree.children(path)))

        return await self._read(look)

    async def children(self, path: str) -> list[str]:
        return await self._read(lambda: self._tree.children(path))

    async def sync(self, path: str = "/") -> None:
        await self._read(lambda: None)

    async def ensure_path(self, path: str) -> None:
        """One request: it makes no difference which client creates a part of it first."""

        def ensure() -> None:
            parts = path.strip("/").split("/")
            for depth in range(1, len(parts) + 1):
                prefix = "/" + "/".join(parts[:depth])
                if prefix not in self._tree.nodes:
                    self._tree.apply(Create(prefix), self.session_id)

        await self._written(ensure)

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        [created] = await self._written(self._one(Create(path, data, ephemeral, sequential)))
        return str(created)

    async def set(self, path: str, data: bytes, *, version: int = -1) -> int:
        [written] = await self._written(self._one(SetData(path, data, version)))
        assert isinstance(written, int)
        return written

    async def delete(self, path: str, *, version: int = -1) -> None:
        await self._written(self._one(Delete(path, version)))

    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        def write() -> list[str | int | None]:
            self._observer.before(self, operations)
            results = self._tree.apply_all(self._observer.relaxed(operations), self.session_id)
            self._observer.after(self, operations)
            return results

        return await self._written(write)

    def watch_children(self, path: str, listener: Callable[[list[str]], None]) -> None:
        """The tree reports a change; the listener is called later, once for all changes."""
        self._watched[path] = listener
        self._tree.watch(self, path, lambda _: self.events.update({path: listener}))

    # --- inside --------------------------------------------------------------------------------

    def _node(self, path: str) -> Znode:
        if path not in self._tree.nodes:
            raise NoNode(path)
        return self._tree.nodes[path]

    def _one(self, operation: Operation) -> Callable[[], list[str | int | None]]:
        def write() -> list[str | int | None]:
            self._observer.before(self, [operation])
            [relaxed] = self._observer.relaxed([operation])
            result = self._tree.apply(relaxed, self.session_id)
            self._observer.after(self, [operation])
            return [result]

        return write

    async def _read(self, look: Callable[[], T]) -> T:
        if await self._wait(None) is not _Fate.TAKEN:
            raise ConnectionLost("a read")
        return look()

    async def _written(self, write: Callable[[], T]) -> T:
        fate = await self._wait(write)
        if fate is _Fate.LOST_BEFORE:
            raise ConnectionLost("before the server took it")
        try:
            result = write()
        except CoordinationError as error:
            await self._answered(fate)
            raise error
        await self._answered(fate)
        return result

    async def _answered(self, fate: _Fate) -> None:
        """The answer is under way before anything else of this session is taken."""
        if fate is _Fate.LOST_AFTER or await self._wait(None, first=True) is not _Fate.TAKEN:
            raise ConnectionLost("after the server took it")

    async def _wait(self, write: Callable[[], object] | None, *, first: bool = False) -> _Fate:
        if self.state is LinkState.ENDED or self._dead:
            raise SessionEnded(f"session {self.session_id}")
        each = _Waiting(asyncio.get_running_loop().create_future(), write)
        if first:
            self._waiting.appendleft(each)
        else:
            self._waiting.append(each)
        try:
            return await each.future
        except asyncio.CancelledError:
            # The caller that waits for it is gone, not the request.
            if each in self._waiting:
                self._waiting.remove(each)
                if not self._dead:
                    self._write_unheard(each)
            raise
