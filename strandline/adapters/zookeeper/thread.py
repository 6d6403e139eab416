"""The ground under kazoo's connection thread: sockets, wake-ups, completions, and the way to the loop.

kazoo lets its user choose what it runs on (its "handler"). Its own choice starts two more threads, wakes
one of them for each answer, and queues a request by writing to a socket pair that blocks the caller once
a few hundred bytes lie unread: with ZooKeeper down that caller would be the event loop. This one

* never blocks the caller: the wake-up is a counter (eventfd);
* hands answers to the event loop in batches, one crossing for all that came meanwhile;
* reads ahead, so that a pipelined answer costs a slice and not four system calls;
* notices a silent server though requests keep going out, which kazoo takes for a heartbeat;
* can refuse to connect again, so that one client never lives in two sessions.

Nothing here knows ZooKeeper's protocol but `ServerSocket`, which reads the granted timeout off the
handshake because kazoo tells it to nobody.
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
from typing import Any, Final

from strandline.ports import Clock

READ_AHEAD_BYTES: Final = 64 * 1024
CONNECT_S_MAX: Final = 1.0
"""For a TCP connect, and for the handshake after it: a server that is only just starting was seen to
accept and never answer, and neither that nor a black hole may hold up the next attempt."""

SILENCE_MAX: Final = 2 / 3
"""Part of the session timeout without a byte from the server after which another server is tried."""

SILENCE_S_MIN: Final = 0.45
"""kazoo lets up to 0.4 s pass between two heartbeats, however short the session timeout is."""

_TIMEOUT_FIELD: Final = slice(8, 12)
"""Where the handshake's answer holds the granted timeout: after its length and the protocol version."""


class Crossing:
    """From any thread to the event loop, in order, one wake-up for all that waits."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._woken = False

    def put(self, function: Callable[..., None], *args: Any) -> None:
        """Call `function` on the loop, after all that was put before it."""
        with self._lock:
            self._waiting.append((function, args))
            if self._woken:
                return
            self._woken = True
        if not self._loop.is_closed():  # else there is nobody left to tell
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        with self._lock:
            ready, self._waiting = self._waiting, deque()
            self._woken = False
        for function, args in ready:
            function(*args)


class Completion:
    """One answer to come (kazoo's IAsyncResult, as far as its asynchronous calls use it).

    The first outcome counts: kazoo sets a second one when it is closed under a call.
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
        """Call `callback` once the outcome is known, on the thread that knows it."""
        with self._lock:
            if not self.done:
                self._callbacks.append(callback)
                return
        callback(self)

    def get(self) -> Any:
        """The value of a completion that is done; raises its exception."""
        if self.exception is not None:
            raise self.exception
        return self.value


class Bell:
    """Counts requests that wait to be sent; both ends of what kazoo takes for a socket pair.

    Closed only after the session has ended, when nobody rings any more.
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


class ServerSocket(socket.socket):
    """A connection to a server that reads ahead and knows when it last heard something."""

    def __init__(self, connected: socket.socket, clock: Clock) -> None:
        super().__init__(fileno=connected.detach())
        self._clock = clock
        self._ahead = b""
        self._next = 0
        self._greeting = b""
        self.heard_at = clock.monotonic()

    @property
    def granted_s(self) -> float:
        """The session timeout that the server granted, seconds; 0 before the handshake's answer."""
        return int.from_bytes(self._greeting[_TIMEOUT_FIELD], "big", signed=True) / 1000

    def pending(self) -> int:
        """Bytes read ahead; kazoo asks for this before it waits for the socket."""
        return len(self._ahead) - self._next

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        if self._next == len(self._ahead):
            self._ahead, self._next = super().recv(READ_AHEAD_BYTES, flags), 0
            self.heard_at = self._clock.monotonic()
            if len(self._greeting) < _TIMEOUT_FIELD.stop:
                self._greeting += self._ahead
        chunk = self._ahead[self._next : self._next + bufsize]
        self._next += len(chunk)
        return chunk

    @property
    def patience_s(self) -> float:
        """Seconds for which the server may go on being silent; 0 or less: it was silent for too long."""
        allowed = max(self.granted_s * SILENCE_MAX, SILENCE_S_MIN) if self.granted_s else CONNECT_S_MAX
        return self.heard_at + allowed - self._clock.monotonic()


class Handler:
    """What kazoo calls its handler (its interface IHandler), for one client."""

    name = "strandline"
    timeout_exception = TimeoutError

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._refusing = False
        self._socket: ServerSocket | None = None
        self.running = False

    @property
    def granted_s(self) -> float:
        """The session timeout that the present connection was granted, seconds."""
        return self._socket.granted_s if self._socket is not None else 0.0

    def refuse(self) -> None:
        """Never connect again: the session is over, and this client must not begin another.

        Called on the connection thread, which is also the one that connects.
        """
        self._refusing = True

    def sever(self) -> None:
        """Break the connection under the connection thread, if there is one."""
        with self._lock:
            if self._socket is not None and self._socket.fileno() >= 0:
                self._socket.shutdown(socket.SHUT_RDWR)

    # --- called by kazoo ---------------------------------------------------------------------

    def start(self) -> None:
        self._stopped.clear()
        self.running = True

    def stop(self) -> None:
        self._stopped.set()
        self.running = False

    def sleep_func(self, seconds: float) -> None:
        """Between two attempts to connect; ends early when the client is stopped."""
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
        """A watch fired. Our listeners only cross over to the loop, so the connection thread calls them."""
        callback.func(*callback.args)

    def create_socket_pair(self) -> tuple[Bell, Bell]:
        bell = Bell()
        return bell, bell

    def create_connection(
        self, address: tuple[str, int], timeout: float | None = None, **_tls: Any
    ) -> ServerSocket:
        """Connect, unless refused. Raises OSError, which kazoo takes for a lost connection."""
        if self._refusing:
            raise ConnectionAbortedError("the session is over")
        wait_s = CONNECT_S_MAX if timeout is None else min(timeout, CONNECT_S_MAX)
        connected = ServerSocket(socket.create_connection(address, wait_s), self._clock)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._socket = connected
        return connected

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], _errors: Sequence[Any], timeout: float | None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """As select.select does, but what was read ahead counts as readable.

        Raises TimeoutError when the server has been silent for too long.
        """
        poll = select.poll()
        for reader in readers:
            poll.register(reader, select.POLLIN)
        for writer in writers:
            poll.register(writer, select.POLLOUT)
        servers = [reader for reader in readers if isinstance(reader, ServerSocket)]
        ahead = [server for server in servers if server.pending()]
        waits = [0.0 for _ in ahead] + [max(0.0, server.patience_s) for server in servers]
        if timeout is not None:
            waits.append(timeout)
        ready = {fd for fd, _ in poll.poll(math.ceil(min(waits) * 1000) if waits else None)}
        readable = [r for r in readers if r in ahead or r.fileno() in ready]
        for server in servers:
            if server not in readable and server.patience_s <= 0:
                raise TimeoutError("ZooKeeper is silent")
        return readable, [w for w in writers if w.fileno() in ready], []
