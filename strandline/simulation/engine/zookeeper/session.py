"""A ZooKeeper session of a simulated process: the port `CoordinationSession`.

It keeps the promises of the real one: an operation that was under way when the connection broke raises
ConnectionLost; one that is asked for meanwhile waits for the next connection; once the session has ended,
nothing is sent in its name.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, Final, TypeVar

from strandline.adapters.zookeeper.connection.naming import Naming
from strandline.adapters.zookeeper.requests.chroot import Chroot
from strandline.adapters.zookeeper.requests.merged import Answered, Carried, MergedReads, MergedWrites
from strandline.adapters.zookeeper.requests.sizes import check_multi, check_size
from strandline.adapters.zookeeper.watch import ChildrenWatch
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import CoordinationError
from strandline.ports import (
    ConnectionLost,
    Create,
    Delete,
    LinkState,
    NodeExists,
    NoNode,
    Operation,
    SessionEnded,
    SetData,
    Znode,
)
from strandline.simulation.engine.loop import Process
from strandline.simulation.engine.network import End, Network
from strandline.simulation.engine.zookeeper.ensemble import Link
from strandline.simulation.engine.zookeeper.requests import Request
from strandline.simulation.engine.zookeeper.znode_tree import ZnodeTree

T = TypeVar("T")

WAITING_S: Final = 1.0
CONNECT_S_MAX: Final = 1.0
"""For one attempt to connect and to be welcomed."""
RECONNECT_DELAY_S: Final = 0.05
RECONNECT_BACKOFF: Final = 1.2
PINGS_PER_TIMEOUT: Final = 3
SILENCE_OF_TIMEOUT: Final = 2 / 3
"""A client gives its connection up after this part of the session timeout without a word."""
CLOSE_S_MAX: Final = 1.0


async def connect_session(
    network: Network,
    process: Process,
    random: Random,
    settings: ZooKeeperSettings,
    on_waiting: Callable[[float], None],
    operations_merged_max: int,
) -> SimulatedSession:
    """Begin a session; waits for ZooKeeper without a time limit. `operations_merged_max`: see `Machine`."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        session = SimulatedSession(network, process, random, settings, operations_merged_max)
        session.begin()
        try:
            while not await session.opened(WAITING_S):
                on_waiting(loop.time() - began)
            await _ensure_root(session)
            return session
        except SessionEnded:  # it expired during the first steps
            await session.close()
        except BaseException:
            session.close_now()
            raise


async def _ensure_root(session: SimulatedSession) -> None:
    while True:
        try:
            return await session.ensure_path("/")
        except ConnectionLost:
            continue


class SimulatedSession:
    """One session, from its start to its end. Fulfils `strandline.host.CoordinationSession`, and
    `ensemble.Client` and `network.Receiver` towards its server."""

    def __init__(
        self,
        network: Network,
        process: Process,
        random: Random,
        settings: ZooKeeperSettings,
        operations_merged_max: int,
    ) -> None:
        hosts, slash, root = settings.zookeeper.partition("/")
        self._chroot = Chroot(slash + root)
        self._servers = hosts.split(",")
        random.shuffle(self._servers)
        self._network = network
        self._process = process
        self._asked_timeout_s = settings.zookeeper_session_timeout_ms / 1000
        self._delay_s_max = settings.zookeeper_reconnect_delay_max_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._state = LinkState.SUSPENDED
        self._attempts = 0
        self._delay_s = RECONNECT_DELAY_S
        self._give_up: Callable[[], None] | None = None
        self._end: End | None = None
        self._session = 0
        self._password = b""
        self._timeout_s = 0.0
        self._zxid = 0
        self._heard_at = 0.0
        self.heard_ns = 0
        """When anything of a server came last, in the world's time. For judges."""
        self._naming = Naming(self._asked_timeout_s)
        self._pinging: asyncio.TimerHandle | None = None
        self._opened = asyncio.Event()
        self._ended = asyncio.Event()
        self._hung_up = asyncio.Event()
        self._closing = False
        self._unsent: dict[Request, asyncio.Future[Any]] = {}
        self._sent: dict[Request, asyncio.Future[Any]] = {}
        self._waiting: dict[asyncio.Future[Any], None] = {}
        """Of callers."""
        self._reads = MergedReads(self._loop, self._send_reads)
        self._writes = MergedWrites(self._loop, self._send_multi, operations_merged_max)
        self._listeners: list[Callable[[LinkState], None]] = []
        self._watches: dict[str, list[ChildrenWatch]] = {}

    # --- life cycle --------------------------------------------------------------------------

    @property
    def session_id(self) -> int:
        if not self._session:
            raise ConnectionLost("the session has not begun yet")
        return self._session

    @property
    def session_timeout_s(self) -> float:
        return self._timeout_s

    @property
    def state(self) -> LinkState:
        return self._state

    @property
    def zxid(self) -> int:
        return self._zxid

    @property
    def watch_count(self) -> int:
        return sum(len(watches) for watches in self._watches.values())

    @property
    def unanswered_s(self) -> float:
        """Not measured: no process in here shows metrics."""
        return 0.0

    @property
    def requests(self) -> Mapping[str, tuple[int, int]]:
        """Not counted, for the same reason."""
        return {}

    def on_state(self, listener: Callable[[LinkState], None]) -> None:
        self._listeners.append(listener)

    async def wait_ended(self) -> None:
        await self._ended.wait()

    async def opened(self, wait_s: float) -> bool:
        """True once the session has begun, False if it has not after `wait_s` seconds."""
        try:
            async with asyncio.timeout(wait_s):
                await self._opened.wait()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """End the session: its ephemerals go now if ZooKeeper can be reached."""
        end = self._end
        self.close_now()
        if end is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S_MAX):
                    await self._hung_up.wait()

    def close_now(self) -> None:
        self._finish()
        if self._end is not None and self._session and not self._closing:
            self._closing = True
            link = self._end.connection.server
            assert isinstance(link, Link)
            self._end.send(1, link.take, Request(ends_session=True))

    def _finish(self) -> None:
        """No operation is carried out in this session from here on."""
        if self._state is LinkState.ENDED:
            return
        self._become(LinkState.ENDED)
        for future in [*self._sent.values(), *self._unsent.values(), *self._waiting]:
            if not future.done():
                future.set_exception(SessionEnded("the session ended before the operation did"))
        self._sent.clear()
        self._unsent.clear()
        for watches in self._watches.values():
            for watch in watches:
                watch.end()
        self._ended.set()
        self._stop_attempt()

    def _become(self, state: LinkState) -> None:
        if state is not self._state:
            self._state = state
            for listener in self._listeners:
                self._loop.call_soon(listener, state)

    # --- the connection ----------------------------------------------------------------------

    def begin(self) -> None:
        """Connect to the next server, until one welcomes the session."""
        if self._state is LinkState.ENDED:
            return
        address = self._servers[self._attempts % len(self._servers)]
        self._attempts += 1
        self._give_up = self._network.connect(
            self._process, address, self._connected, self._try_later, silence_s=None
        )
        self._pinging = self._loop.call_later(CONNECT_S_MAX, self._try_later)

    def _connected(self, end: End) -> None:
        self._end = end
        end.receiver = self
        link = end.connection.server
        assert isinstance(link, Link)
        if self._naming.must_knock(self._loop.time()):
            end.send(1, link.knock, self)
        else:
            self._say_hello(link)

    def _say_hello(self, link: Link) -> None:
        assert self._end is not None, "it has just connected"
        self._naming.named(self._loop.time())
        self._end.send(1, link.hello, self, self._session, self._password, self._asked_timeout_s, self._zxid)

    def _try_later(self) -> None:
        self._stop_attempt()
        if self._end is not None:
            self._end.close("no welcome in time")
            self._end = None
        self._begin_later()

    def _begin_later(self) -> None:
        self._loop.call_later(self._delay_s, self.begin)
        self._delay_s = min(self._delay_s * RECONNECT_BACKOFF, self._delay_s_max)

    def _stop_attempt(self) -> None:
        if self._give_up is not None:
            self._give_up()
        if self._pinging is not None:
            self._pinging.cancel()

    def broken(self, reason: str) -> None:
        """The connection is gone: what was sent may have been carried out."""
        self._naming.heard()
        self._end = None
        self._hung_up.set()
        self._stop_attempt()
        if self._state is LinkState.ENDED:
            return
        self._become(LinkState.SUSPENDED)
        sent, self._sent = self._sent, {}
        for future in sent.values():
            if not future.done():
                future.set_exception(ConnectionLost(f"the connection was lost ({reason})"))
        self._begin_later()

    def _beat(self) -> None:
        """Ping, unless the server has been silent for too long."""
        end = self._end
        if end is None:
            return
        if self._loop.time() - self._heard_at >= self._timeout_s * SILENCE_OF_TIMEOUT:
            end.close("the server is silent")
            self.broken("the server is silent")
            return
        link = end.connection.server
        assert isinstance(link, Link)
        end.send(1, link.ping)
        self._pinging = self._loop.call_later(self._timeout_s / PINGS_PER_TIMEOUT, self._beat)

    # --- what the server says ----------------------------------------------------------------

    def _hear(self) -> None:
        self._naming.heard()
        self._heard_at = self._loop.time()
        self.heard_ns = self._network.loop.now_ns()

    def knocked(self) -> None:
        """The server answers: now the session is named."""
        self._hear()
        if self._end is None or self._state is LinkState.ENDED:
            return
        if self._pinging is not None:
            self._pinging.cancel()
        self._pinging = self._loop.call_later(CONNECT_S_MAX, self._try_later)
        link = self._end.connection.server
        assert isinstance(link, Link)
        self._say_hello(link)

    def welcomed(self, session: int, password: bytes, timeout_s: float) -> None:
        self._session, self._password, self._timeout_s = session, password, timeout_s
        if self._state is LinkState.ENDED:
            self.close_now()
            return
        self._stop_attempt()
        self._delay_s = RECONNECT_DELAY_S
        self._hear()
        self._opened.set()
        self._become(LinkState.CONNECTED)
        self._beat()
        unsent, self._unsent = self._unsent, {}
        for request, future in unsent.items():
            if not future.done():
                self._send(request, future)
        for watches in self._watches.values():
            for watch in watches:
                watch.arm()

    def expired(self) -> None:
        self._finish()

    def answered(self, request: Request, zxid: int) -> None:
        self._hear()
        self._zxid = max(self._zxid, zxid)
        future = self._sent.pop(request, None)
        if future is None or future.done():
            return
        if request.error is None:
            future.set_result(request.answer)
        else:
            future.set_exception(request.error)

    def event(self, path: str) -> None:
        for watch in self._watches.get(path, ()):
            watch.arm()

    def pong(self) -> None:
        self._hear()

    # --- operations --------------------------------------------------------------------------

    async def get(self, path: str) -> Znode:
        return await self._answer(path, partial(self._reads.get, self._chroot.absolute(path)))

    async def exists(self, path: str) -> Znode | None:
        absolute = self._chroot.absolute(path)

        def look(tree: ZnodeTree) -> Znode | None:
            try:
                found = tree.get(absolute)
            except NoNode:
                return None
            return replace(found, data=b"")

        found: Znode | None = await self._ask(path, Request(read=look))
        return found

    async def children(self, path: str) -> list[str]:
        absolute = self._chroot.absolute(path)
        names: list[str] = await self._ask(path, Request(read=lambda tree: tree.children(absolute)))
        return names

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        check_size(path, data)
        create = Create(self._chroot.absolute(path), data, ephemeral, sequential)
        return self._chroot.relative(await self._ask(path, Request([create])))

    async def ensure_path(self, path: str) -> None:
        if await self.exists(path) is not None:
            return
        parts = self._chroot.absolute(path).strip("/").split("/")
        for depth in range(1, len(parts) + 1):
            part = "/" + "/".join(parts[:depth])
            try:
                await self._ask(part, Request([Create(part)]))
            except NodeExists:
                continue

    async def set(self, path: str, data: bytes, *, version: int = -1) -> int:
        check_size(path, data)
        written: int = await self._ask(path, Request([SetData(self._chroot.absolute(path), data, version)]))
        return written

    async def delete(self, path: str, *, version: int = -1) -> None:
        await self._ask(path, Request([Delete(self._chroot.absolute(path), version)]))

    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        if not operations:
            return []
        check_multi(operations)
        absolute = [self._chroot.of(operation) for operation in operations]
        what = f"multi of {len(operations)}"
        answers = await self._answer(what, partial(self._writes.multi, absolute))
        return [self._chroot.relative(answer) if isinstance(answer, str) else answer for answer in answers]

    async def sync(self, path: str = "/") -> None:
        await self._ask(path, Request())

    def watch_children(self, path: str, listener: Callable[[list[str]], None]) -> None:
        self._check_alive(path)
        absolute = self._chroot.absolute(path)

        def send_read() -> None:
            request = Request(read=lambda tree: tree.children(absolute), watch=absolute)
            self._issue_then(request, watch.take)

        watch = ChildrenWatch(path, send_read, listener)
        self._watches.setdefault(absolute, []).append(watch)
        watch.arm()

    # --- inside ------------------------------------------------------------------------------

    async def _answer(self, what: str, issue: Callable[[asyncio.Future[T]], None]) -> T:
        """Issues a request, and waits for its answer or for the end of the session."""
        self._check_alive(what)
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting[future] = None
        issue(future)
        try:
            return await future
        finally:
            self._waiting.pop(future, None)

    def _send_reads(self, paths: Sequence[str], answered: Answered) -> None:
        def take(found: Any) -> None:
            lost = isinstance(found, CoordinationError)
            answered([type(found)(found.message) for _ in paths] if lost else found)

        self._issue_then(Request(read=partial(_read_all, paths)), take)

    def _send_multi(self, operations: Sequence[Operation], carried: Carried) -> None:
        self._issue_then(Request(operations, multi=True), carried)

    def _issue_then(self, request: Request, take: Callable[[Any], None]) -> None:
        """Calls `take` with the answer or the error."""
        if self._state is LinkState.ENDED:
            return
        future: asyncio.Future[Any] = self._loop.create_future()
        future.add_done_callback(partial(_take, take))
        self._issue(request, future)

    def _check_alive(self, what: str) -> None:
        if self._state is LinkState.ENDED:
            raise SessionEnded(f"{what}: the session is over")

    async def _ask(self, what: str, request: Request) -> Any:
        return await self._answer(what, partial(self._issue, request))

    def _issue(self, request: Request, future: asyncio.Future[Any]) -> None:
        if self._state is LinkState.CONNECTED:
            self._send(request, future)
        else:
            self._unsent[request] = future

    def _send(self, request: Request, future: asyncio.Future[Any]) -> None:
        assert self._end is not None, "a connected session has a connection"
        link = self._end.connection.server
        assert isinstance(link, Link)
        self._sent[request] = future
        self._end.send(1, link.take, request)


def _read_all(paths: Sequence[str], tree: ZnodeTree) -> list[Znode | CoordinationError]:
    found: list[Znode | CoordinationError] = []
    for path in paths:
        try:
            found.append(tree.get(path))
        except CoordinationError as error:
            found.append(error)
    return found


def _take(take: Callable[[Any], None], future: asyncio.Future[Any]) -> None:
    error = future.exception()
    if error is None:
        take(future.result())
    elif isinstance(error, CoordinationError):
        take(error)
