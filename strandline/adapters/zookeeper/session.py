"""ZooKeeper through kazoo: the `Coordination` port.

A `ZooKeeperSession` is one session, from its start to its end. kazoo by itself would silently begin
a new session after an expiry and send the requests that are still queued in it. Here the connection
thread refuses any further connection before it leaves the call that reports the end, so queued
requests are never sent, and their callers get `SessionEnded` (CORRECTNESS E8-E12). A session that is
granted in place of the one that was asked for is such an end.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

import structlog
from kazoo.client import KazooClient
from kazoo.protocol.states import EventType, KazooState, KeeperState
from kazoo.security import ACL, Id

from strandline.adapters.system.clock import SystemClock
from strandline.adapters.zookeeper.access.identity import OPEN, Acl, Grant, identity
from strandline.adapters.zookeeper.connection.addresses import Resolve, ServerAddresses, resolved
from strandline.adapters.zookeeper.connection.refusal_log import RefusalLog
from strandline.adapters.zookeeper.connection.thread import Completion, Handler, LoopQueue
from strandline.adapters.zookeeper.connection.tls import client_tls
from strandline.adapters.zookeeper.kazoo_errors import ENDED, raise_ended, translate
from strandline.adapters.zookeeper.requests.chroot import Chroot
from strandline.adapters.zookeeper.requests.counts import RequestCounts
from strandline.adapters.zookeeper.requests.merged import MergedReads, MergedWrites
from strandline.adapters.zookeeper.requests.pending import Pending
from strandline.adapters.zookeeper.requests.sender import MergedSender, znode
from strandline.adapters.zookeeper.requests.sizes import check_multi, check_size
from strandline.adapters.zookeeper.watch import ChildrenWatch
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import SettingsError
from strandline.ports import (
    ConnectionLost,
    LinkState,
    NodeExists,
    NoNode,
    Operation,
    SessionEnded,
    Znode,
)

CLOSE_S_MAX: Final = 1.0
"""How long a clean end waits for an unresponsive server before it closes the connection."""

RECONNECT_DELAY_S: Final = 0.05
RECONNECT_BACKOFF: Final = 1.2

T = TypeVar("T")

_CLOCK: Final = SystemClock()
logger = structlog.get_logger(__name__)
_LOG: Final = logging.getLogger("strandline.kazoo")
_LOG.setLevel(logging.ERROR)  # it warns at each attempt to connect; the callbacks report it once


class ZooKeeperSession:
    """One session (`strandline.ports.Coordination`). Made by `connect`.

    An operation issued while the link is SUSPENDED waits for the connection and is then sent, in
    this session or not at all. Everything runs on the event loop that made the session.
    """

    def __init__(
        self,
        settings: ZooKeeperSettings,
        *,
        resume: tuple[int, bytes] | None = None,
        resolve: Resolve = resolved,
    ) -> None:
        hosts, slash, root = settings.zookeeper.partition("/")
        self._chroot = Chroot(slash + root)
        self.identity = identity(settings)
        self._loop = asyncio.get_running_loop()
        self._loop_queue = LoopQueue(self._loop)
        self._refusals = RefusalLog(_CLOCK)
        timeout_s = settings.zookeeper_session_timeout_ms / 1000
        self._handler = Handler(
            _CLOCK, client_tls(settings), partial(self._loop_queue.put, self._report_refusal), timeout_s
        )
        try:
            self._client = KazooClient(
                hosts,
                timeout=timeout_s,
                client_id=resume,
                handler=self._handler,
                auth_data=self.identity.credentials,
                default_acl=_kazoo_acl(self.identity.acl) if self.identity.set_acl else None,
                connection_retry={
                    "max_tries": -1,
                    "delay": RECONNECT_DELAY_S,
                    "backoff": RECONNECT_BACKOFF,
                    "max_delay": settings.zookeeper_reconnect_delay_max_ms / 1000,
                    "sleep_func": self._handler.sleep_func,
                },
                logger=_LOG,
            )
        except ValueError as error:
            raise SettingsError(
                f"setting zookeeper = {settings.zookeeper!r}: {error} (set STRANDLINE_ZOOKEEPER)"
            ) from error
        # kazoo itself would wait for the resolver before each attempt to connect, for as long as it takes.
        self._client._connection._expand_client_hosts = ServerAddresses(self._client.hosts, resolve).current
        self._state = LinkState.SUSPENDED
        self._opened = asyncio.Event()
        self._ended = asyncio.Event()
        self._begun_as: tuple[int, bytes] | None = None
        self._granted: int | None = None
        """The session that was granted first; the connection thread's."""
        self._timeout_s = 0.0
        self.identity_refused = False
        """True if the session ended because ZooKeeper refused the credentials."""
        self._pending = Pending(self._loop, lambda: self._state is LinkState.CONNECTED)
        self._requests = RequestCounts()
        sender = MergedSender(
            self._client, self._handler, self._loop_queue, self._chroot, self._requests, self._end
        )
        self._reads = MergedReads(self._loop, sender.read)
        self._writes = MergedWrites(self._loop, sender.write)
        self._listeners: list[Callable[[LinkState], None]] = []
        self._watches: list[ChildrenWatch] = []
        self._stopping: asyncio.Future[None] | None = None
        self._client.add_listener(self._link_changed)

    # --- life cycle ------------------------------------------------------------------------------

    @property
    def session_id(self) -> int:
        return self._known_session()[0]

    @property
    def session_password(self) -> bytes:
        """The password: with the id, it authorizes a client to resume this session or to end it."""
        return self._known_session()[1]

    @property
    def session_timeout_s(self) -> float:
        """The timeout that the server granted, seconds."""
        return self._timeout_s

    @property
    def state(self) -> LinkState:
        return self._state

    @property
    def zxid(self) -> int:
        """The number of the newest transaction that this session has seen; 0: of none, or it has ended."""
        return int(self._client.last_zxid)

    @property
    def chroot(self) -> str:
        """Empty without one."""
        return self._chroot.root

    @property
    def watch_count(self) -> int:
        """The most watches that ZooKeeper may hold for this session: a watch is not renewed while
        it is read."""
        return len(self._watches)

    @property
    def unanswered_s(self) -> float:
        """How long the oldest request that has no answer waits for it; 0 without one."""
        return self._pending.waited_s

    @property
    def requests(self) -> Mapping[str, tuple[int, int]]:
        """By kind: how many requests were sent, and the operations in them."""
        return self._requests.counted

    def on_state(self, listener: Callable[[LinkState], None]) -> None:
        """Call `listener` on the event loop at each change of state."""
        self._listeners.append(listener)

    def begin(self) -> None:
        """Start to connect. Called once, by the creator of the session."""
        self._client.start_async()

    async def opened(self, wait_s: float) -> bool:
        """True once the session has begun, False if it has not after `wait_s` seconds."""
        try:
            async with asyncio.timeout(wait_s):
                await self._opened.wait()
        except TimeoutError:
            return False
        return True

    async def wait_ended(self) -> None:
        """Return once the session has ended, by its timeout or by `close`."""
        await self._ended.wait()

    async def close(self) -> None:
        """End the session at once: its ephemerals are deleted now if ZooKeeper can be reached."""
        self._end()
        assert self._stopping is not None  # _end set it
        await asyncio.shield(self._stopping)

    def close_now(self) -> None:
        """As `close`, for a process that exits while its loop is blocked: blocks for at most
        `CLOSE_S_MAX`.

        Callers that wait for an operation are not notified.
        """
        self._stop_client()

    def _known_session(self) -> tuple[int, bytes]:
        if self._begun_as is None:
            raise ConnectionLost("the session has not begun yet")
        return self._begun_as

    def _link_changed(self, state: str) -> None:
        """Runs on the connection thread, which does nothing else until this returns."""
        try:
            self._queue_link_state(state)
        except Exception as error:  # kazoo would only log it, and continue
            self._loop.call_soon_threadsafe(_raise, error)

    def _queue_link_state(self, state: str) -> None:
        if state == KazooState.LOST:
            self._handler.refuse()
        if self._client.client_state == KeeperState.AUTH_FAILED:
            self.identity_refused = True
        identity = self._client.client_id
        if state == KazooState.CONNECTED and identity is not None:
            if self._granted is not None and identity[0] != self._granted:
                self._refuse_replacement(self._granted, identity[0])
                return
            self._granted = identity[0]
        self._loop_queue.put(self._take_link_state, state, identity, self._handler.granted_s)

    def _refuse_replacement(self, asked: int, granted: int) -> None:
        """Ends the session: another one was granted at a reconnect, so nothing of this one is left.

        Runs on the connection thread, which has sent no request in the other session yet and sends none: it
        finds the connection broken.
        """
        logger.error("ZooKeeper replaced the session", session=f"{asked:x}", by=f"{granted:x}")
        self._handler.refuse()
        self._handler.sever()
        self._loop_queue.put(self._end)

    def _take_link_state(self, state: str, identity: tuple[int, bytes] | None, granted_s: float) -> None:
        if self._state is LinkState.ENDED:
            return
        if state == KazooState.LOST:
            self._end()
        elif state == KazooState.CONNECTED and identity is not None:
            self._begun_as = identity
            self._timeout_s = granted_s
            self._opened.set()
            self._become(LinkState.CONNECTED)
            for watch in self._watches:
                watch.arm()
        else:
            self._become(LinkState.SUSPENDED)

    def _report_refusal(self, server: str, reason: str) -> None:
        if self._state is not LinkState.ENDED:  # its own end breaks a handshake
            self._refusals.report(server, reason)

    def _become(self, state: LinkState) -> None:
        if state is not self._state:
            self._state = state
            for listener in self._listeners:
                self._loop.call_soon(listener, state)

    def _end(self) -> None:
        """No operation is carried out in this session from here on."""
        if self._state is LinkState.ENDED:
            return
        self._become(LinkState.ENDED)
        self._pending.fail(SessionEnded("the session ended before the operation did"))
        for watch in self._watches:
            watch.end()
        self._ended.set()
        self._stopping = self._loop.run_in_executor(None, self._stop_client)

    def _stop_client(self) -> None:
        """Runs on its own thread, since kazoo waits for its connection thread."""
        hang_up = threading.Timer(CLOSE_S_MAX, self._handler.sever)
        hang_up.start()
        try:
            self._client.stop()
            self._client.close()
        finally:
            hang_up.cancel()

    # --- operations ----------------------------------------------------------------------------

    async def get(self, path: str) -> Znode:
        """Raises NoNode."""
        return await self._answer(path, partial(self._reads.get, self._chroot.absolute(path)))

    async def exists(self, path: str) -> Znode | None:
        """The znode's facts (its data is empty here), or None if it does not exist."""
        stat = await self._ask("exists", path, self._client.exists_async)
        return None if stat is None else znode(stat, b"")

    async def children(self, path: str) -> list[str]:
        """Names, in no particular order. Raises NoNode."""
        names: list[str] = await self._ask("children", path, self._client.get_children_async)
        return names

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Returns the created path, with its number if sequential. Raises NodeExists, NoNode."""
        check_size(path, data)
        call = partial(self._client.create_async, ephemeral=ephemeral, sequence=sequential)
        return self._chroot.relative(await self._ask("create", path, call, data))

    async def ensure_path(self, path: str) -> None:
        """Create a persistent path and its missing parents."""
        if await self.exists(path) is not None:
            return
        try:
            await self.create(path)
        except NodeExists:
            return
        except NoNode:
            await self._ensure_parents(self._chroot.absolute(path))

    async def _ensure_parents(self, absolute: str) -> None:
        """Create each part from the top: the chroot itself may be missing too. What is above it is for
        others as well."""
        parts = absolute.strip("/").split("/")
        for depth in range(1, len(parts) + 1):
            part = "/" + "/".join(parts[:depth])
            above = self._chroot.root.startswith(f"{part}/")
            try:
                acl = _kazoo_acl(OPEN) if above else None
                await self._ask_absolute("create", part, self._client.create_async, b"", acl, what=part)
            except NodeExists:
                continue

    async def set(self, path: str, data: bytes, *, version: int = -1) -> int:
        """Returns the znode's new version. Raises NoNode, BadVersion."""
        check_size(path, data)
        stat = await self._ask("set", path, self._client.set_async, data, version)
        return int(stat.version)

    async def delete(self, path: str, *, version: int = -1) -> None:
        """Raises NoNode, BadVersion, NotEmpty."""
        await self._ask("delete", path, self._client.delete_async, version)

    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        """Carry out all operations or none. Returns for each one: the created path, the new
        version, or None.

        Raises MultiFailed.
        """
        if not operations:
            return []
        check_multi(operations)
        absolute = [self._chroot.of(operation) for operation in operations]
        answers = await self._answer(f"multi of {len(operations)}", partial(self._writes.multi, absolute))
        return [self._chroot.relative(each) if isinstance(each, str) else each for each in answers]

    async def acl(self, path: str) -> Acl:
        """Raises NoNode, NotPermitted."""
        entries, _ = await self._ask("acl", path, self._client.get_acls_async)
        return frozenset(Grant(each.id.scheme, each.id.id, each.perms) for each in entries)

    async def set_acl(self, path: str, acl: Acl) -> None:
        """Raises NoNode, NotPermitted."""
        await self._ask("set_acl", path, self._client.set_acls_async, _kazoo_acl(acl))

    async def sync(self, path: str = "/") -> None:
        """Reads after this see everything that was committed before it."""
        await self._ask("sync", path, self._client.sync_async)

    def watch_children(self, path: str, listener: Callable[[list[str]], None]) -> None:
        """Call `listener` on the event loop with the current children, now and after each change.

        It costs one watch. It survives reconnects, coalesces changes, and ends with the session.
        `path` must exist. Raises SessionEnded.
        """
        if self._state is LinkState.ENDED:
            raise_ended(path)

        # Both run on kazoo's thread. kazoo keeps a set of watchers: `on_event` must be the same
        # function for every read, or it would be called twice if one read followed another.
        def on_event(event: Any) -> None:
            if event.type != EventType.NONE:  # NONE: the link changed, which the session handles
                self._loop_queue.put(watch.arm)

        def on_answer(answer: Completion) -> None:
            failed = answer.exception
            self._loop_queue.put(watch.take, answer.value if failed is None else translate(failed, path))

        def send_read() -> None:
            self._requests.count("children", 1)
            self._client.get_children_async(absolute, watch=on_event).rawlink(on_answer)

        absolute = self._chroot.absolute(path)
        watch = ChildrenWatch(path, send_read, listener)
        self._watches.append(watch)
        watch.arm()

    async def _ask(self, operation: str, path: str, call: Callable[..., Completion], *args: Any) -> Any:
        """Ask by a request of its own. `call` takes the absolute path, and `args`."""
        return await self._ask_absolute(operation, self._chroot.absolute(path), call, *args, what=path)

    async def _ask_absolute(
        self, operation: str, absolute: str, call: Callable[..., Completion], *args: Any, what: str
    ) -> Any:
        def issue(future: asyncio.Future[Any]) -> None:
            self._requests.count(operation, 1)
            call(absolute, *args).rawlink(partial(self._loop_queue.put, self._settle, future, what))

        return await self._answer(what, issue)

    async def _answer(self, what: str, issue: Callable[[asyncio.Future[T]], None]) -> T:
        """Issue a request, and wait for its answer or for the end of the session.

        kazoo may forget a request that is queued at the moment of an expiry; `_end` does not.
        """
        if self._state is LinkState.ENDED:
            raise_ended(what)
        future: asyncio.Future[T] = self._pending.add(what)
        issue(future)
        try:
            return await future
        finally:
            self._pending.remove(future)

    def _settle(self, future: asyncio.Future[Any], what: str, answer: Completion) -> None:
        if answer.exception is None:
            if not future.done():
                future.set_result(answer.value)
            return
        if isinstance(answer.exception, ENDED):
            self._end()
        if not future.done():
            future.set_exception(translate(answer.exception, what))


def _raise(error: Exception) -> NoReturn:
    raise error


def _kazoo_acl(acl: Acl) -> list[ACL]:
    return [ACL(each.permissions, Id(each.scheme, each.id)) for each in acl]
