"""The base of kazoo's connection thread: sockets, wake-ups, completions, and the queue to the event
loop.

kazoo lets its user choose its threading (its "handler"). Its default starts two more threads, wakes
one of them for each answer, and queues a request by writing to a socket pair that blocks the caller
once a few hundred bytes are unread: if ZooKeeper is down, that caller would be the event loop. This
handler
* never blocks the caller: the wake-up is a counter (eventfd);
* passes answers to the event loop in batches, all that arrived meanwhile with one wake-up;
* reads ahead, so that a pipelined answer costs a slice and not four system calls;
* detects a silent server although requests are still being sent, which kazoo regards as a
  heartbeat;
* names the session to no server that does not answer (`naming.py`);
* can refuse to connect again, so that one client never lives in two sessions;
* encrypts connections itself, if it is given the means: kazoo's own settings for TLS change nothing.
"""

from __future__ import annotations

import math
import os
import select
import socket
import threading
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, Final

from strandline.adapters.zookeeper.connection.naming import Naming
from strandline.adapters.zookeeper.connection.server_socket import CONNECT_S_MAX, ServerSocket
from strandline.adapters.zookeeper.connection.tls import ClientTls, TlsRefused, shake_hands
from strandline.errors import SettingsError
from strandline.ports import Clock

KNOCK: Final = b"ruok"
"""A four letter word. A server answers that it is well, or that it does not serve this word."""

CALLS_IN_A_ROW_MAX: Final = 32
"""An answer wakes a task, and a task may create a replica. A thousand answers that arrive together would have
the loop do nothing else for a second."""


class LoopQueue:
    """A queue of calls from any thread to the event loop, in order, with one wake-up for all
    waiting calls. They see the context variables of the queue's creator.

    After CALLS_IN_A_ROW_MAX calls what else is ready on the loop has its turn. A call that wakes several
    tasks counts as that many.
    """

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._context = copy_context()
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, Callable[..., None], tuple[Any, ...]]] = deque()
        self._woken = False

    def put(self, function: Callable[..., None], *args: Any, counts: int = 1) -> None:
        """Call `function` on the loop, after all calls that were put before it."""
        with self._lock:
            self._waiting.append((counts, function, args))
            if self._woken:
                return
            self._woken = True
        if not self._loop.is_closed():  # after the end of the loop no call is needed
            self._loop.call_soon_threadsafe(self._drain, context=self._context)

    def _drain(self) -> None:
        with self._lock:
            ready, count = [], 0
            while self._waiting and count < CALLS_IN_A_ROW_MAX:
                counts, function, args = self._waiting.popleft()
                ready.append((function, args))
                count += counts
            more = self._woken = bool(self._waiting)
        if more:
            self._loop.call_soon(self._drain, context=self._context)
        for function, args in ready:
            function(*args)


class Completion:
    """A future answer (kazoo's IAsyncResult, as far as its asynchronous calls use it).

    The first outcome counts: kazoo sets a second one when it is closed during a call.
    """

    __slots__ = ("_callbacks", "_lock", "done", "exception", "value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[Completion], None]] = []
        self.done = False
        self.value: Any = None
        self.exception: BaseException | None = None

    def set(self, value: Any = None) -> None:
        self._settle(value, None)

    def set_exception(self, exception: BaseException) -> None:
        self._settle(None, exception)

    def _settle(self, value: Any, exception: BaseException | None) -> None:
        with self._lock:
            if self.done:
                return
            self.value, self.exception, self.done = value, exception, True
        for callback in self._callbacks:
            callback(self)

    def rawlink(self, callback: Callable[[Completion], None]) -> None:
        """Call `callback` once the outcome is known, on the thread that sets it."""
        with self._lock:
            if not self.done:
                self._callbacks.append(callback)
                return
        callback(self)

    def get(self) -> Any:
        """The value of a completed answer; raises its exception."""
        if self.exception is not None:
            raise self.exception
        return self.value


class WakeUpCounter:
    """Counts requests that wait to be sent. kazoo uses it as both ends of a socket pair.

    It is closed only after the session has ended, when no caller sends.
    """

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        return self._fd

    def send(self, data: bytes) -> int:
        os.eventfd_write(self._fd, 1)
        return len(data)

    def recv(self, _size: int) -> bytes:
        os.eventfd_read(self._fd)
        return b"\0"

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Handler:
    """The handler of one kazoo client (kazoo's interface IHandler)."""

    name = "strandline"
    timeout_exception = TimeoutError

    def __init__(
        self,
        clock: Clock,
        tls: ClientTls | None,
        on_refused: Callable[[str, str], None],
        session_timeout_s: float,
    ) -> None:
        """Without `tls` connections are in plaintext. `on_refused` gets a server's address and the reason
        for which there is no encrypted connection to it; it runs on the connection thread."""
        self._clock = clock
        self._naming = Naming(session_timeout_s)
        self._tls = tls
        self._on_refused = on_refused
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._refusing = False
        self._socket: ServerSocket | None = None
        self.running = False

    @property
    def granted_s(self) -> float:
        """The session timeout granted to the present connection, seconds."""
        return self._socket.granted_s if self._socket is not None else 0.0

    def refuse(self) -> None:
        """Never connect again: the session is over, and this client must not begin another.

        Called on the connection thread, which is also the one that connects.
        """
        self._refusing = True

    def sever(self) -> None:
        """Break the connection of the connection thread, if there is one."""
        with self._lock:
            if self._socket is not None:
                self._socket.sever()

    # --- called by kazoo ---------------------------------------------------------------------

    def start(self) -> None:
        self._stopped.clear()
        self.running = True

    def stop(self) -> None:
        self._stopped.set()
        self.running = False

    def sleep_func(self, seconds: float) -> None:
        """Waits between two attempts to connect; ends early when the client is stopped."""
        self._stopped.wait(seconds)

    def spawn(self, function: Callable[..., None], *args: Any) -> threading.Thread:
        thread = threading.Thread(target=function, args=args, name="zookeeper", daemon=True)
        thread.start()
        return thread

    def event_object(self) -> threading.Event:
        return threading.Event()

    def async_result(self) -> Completion:
        return Completion()

    def dispatch_callback(self, callback: Any) -> None:
        """Called when a watch fires. strandline's listeners only queue a call to the loop, so the
        connection thread calls them."""
        callback.func(*callback.args)

    def create_socket_pair(self) -> tuple[WakeUpCounter, WakeUpCounter]:
        counter = WakeUpCounter()
        return counter, counter

    def create_connection(
        self, address: tuple[str, int], timeout: float | None = None, hostname: str = "", **_tls: Any
    ) -> ServerSocket:
        """Connect to an address of `hostname`, unless refused. Raises OSError, which kazoo treats as a lost
        connection.

        kazoo's own arguments for TLS are not used: this handler encrypts if it was made to.
        """
        if self._refusing:
            raise ConnectionAbortedError("the session is over")
        wait_s = CONNECT_S_MAX if timeout is None else min(timeout, CONNECT_S_MAX)
        host = hostname or address[0]
        if self._socket is not None and self._socket.heard:
            self._naming.heard()
        if self._naming.must_knock(self._clock.monotonic()):
            self._knock(address, host, wait_s)
        connected = self._open(address, host, wait_s)
        self._naming.named(self._clock.monotonic())  # kazoo does so at once
        return connected

    def _knock(self, address: tuple[str, int], host: str, wait_s: float) -> None:
        """Ask a server for any answer, without a session. Raises OSError if it gives none."""
        asked = self._open(address, host, wait_s)
        try:
            asked.say(KNOCK, wait_s)
        finally:
            asked.close()
        self._naming.heard()

    def _open(self, address: tuple[str, int], host: str, wait_s: float) -> ServerSocket:
        """A connection, which `sever` breaks. Raises OSError."""
        opened = socket.create_connection(address, wait_s)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        refused = partial(self._on_refused, f"{host}:{address[1]}")
        try:
            wrapped = None if self._tls is None else self._tls.wrap(opened, host)
            connected = ServerSocket(wrapped or opened, self._clock, refused)
            with self._lock:
                self._socket = connected  # `sever` can break the handshake too
            if wrapped is not None:
                shake_hands(wrapped)
        except TlsRefused as error:
            refused(str(error))
            raise
        except SettingsError as error:  # a file was replaced by one that cannot be used
            refused(f"was not asked: {error.message}")
            raise TlsRefused(error.message) from error
        return connected

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], _errors: Sequence[Any], timeout: float | None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """As select.select, but a server is readable only if there are bytes for kazoo, an end or an error:
        bytes that were read ahead count, and messages of TLS do not.

        Raises TimeoutError when the server has been silent for too long.
        """
        poll = select.poll()
        for reader in readers:
            poll.register(reader, select.POLLIN)
        for writer in writers:
            poll.register(writer, select.POLLOUT)
        servers = [reader for reader in readers if isinstance(reader, ServerSocket)]
        deadline = None if timeout is None else self._clock.monotonic() + timeout
        while True:
            ahead = [server for server in servers if server.pending()]
            waits = [0.0 for _ in ahead] + [max(0.0, server.silence_left_s) for server in servers]
            if deadline is not None:
                waits.append(max(0.0, deadline - self._clock.monotonic()))
            ready = {fd for fd, _ in poll.poll(math.ceil(min(waits) * 1000) if waits else None)}
            arrived = [s for s in servers if s in ahead or (s.fileno() in ready and s.take_arrived())]
            readable = [r for r in readers if r in arrived or (r not in servers and r.fileno() in ready)]
            for server in servers:
                if server not in readable and server.silence_left_s <= 0:
                    raise TimeoutError("ZooKeeper is silent")
            writable = [w for w in writers if w.fileno() in ready]
            if readable or writable or not ready:
                return readable, writable, []
