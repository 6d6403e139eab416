"""Serves metrics over HTTP, in Prometheus' text format.

Requests are answered on their own threads, so that no scrape, however slow or malformed, blocks the
event loop. The loop does one thing for a scrape: it reads the service's objects in one turn, so
that the samples are consistent. Scrapes within a short time share one reading.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import structlog

from strandline.adapters.telemetry.metrics import Metric, Sample
from strandline.config import METRICS_CONNECTIONS_MAX
from strandline.errors import SettingsError
from strandline.ports import Clock

logger = structlog.get_logger(__name__)

PATH: Final = "/metrics"
REQUEST_S_MAX: Final = 5.0
"""How long a client may take to send a piece of its request, or to read the answer."""
READING_S_MAX: Final = 5.0
"""How long a scrape waits for a busy event loop."""
READING_SHARED_S: Final = 0.1
"""A sample younger than this is reused for the next scrape, so that any number of scrapes costs the
loop at most ten readings a second."""
ROOM_S_MAX: Final = 0.2
STOP_POLL_S: Final = 0.1

Read = Callable[[], Sequence[Sample]]
Application = Callable[..., Iterable[bytes]]
"""A WSGI application (PEP 3333)."""


@asynccontextmanager
async def serve_metrics(
    host: str,
    port: int | None,
    metrics: Sequence[Metric],
    read: Read,
    clock: Clock,
    *,
    request_s_max: float = REQUEST_S_MAX,
    reading_s_max: float = READING_S_MAX,
) -> AsyncIterator[int | None]:
    """Serve what `read` returns, until the end of the block. `read` is called on this event loop.

    Yields the port, a free one for 0; None: serves nothing. Raises SettingsError if it cannot
    listen on the address.
    """
    if port is None:
        yield None
        return
    readings = _Readings(read, asyncio.get_running_loop(), clock, reading_s_max)
    try:
        listener = _Listener(host, port, _Text(metrics, readings.samples), request_s_max)
    except OSError as error:
        raise SettingsError(
            f"setting metrics_port = {port}: cannot listen on {host}:{port}: {error.strerror} "
            "(set STRANDLINE_METRICS_PORT)"
        ) from error
    # A daemon thread: if the process ends by an exception, it does not wait for scrapes.
    thread = threading.Thread(target=listener.serve_forever, args=(STOP_POLL_S,), name="metrics", daemon=True)
    thread.start()
    logger.info("metrics are served", host=host, port=listener.server_port, path=PATH)
    try:
        yield listener.server_port
    finally:
        await asyncio.to_thread(listener.shutdown)
        listener.server_close()


# --- reading --------------------------------------------------------------------------------


class _Readings:
    """Readings of a service, made on its event loop for the threads of scrapes."""

    def __init__(self, read: Read, loop: asyncio.AbstractEventLoop, clock: Clock, wait_s_max: float) -> None:
        self._read = read
        self._loop = loop
        self._clock = clock
        self._wait_s_max = wait_s_max
        self._lock = threading.Lock()
        self._last: Future[Sequence[Sample]] | None = None
        self._asked = 0.0

    def samples(self) -> Sequence[Sample]:
        """Raises TimeoutError if the loop is busy for too long, RuntimeError once it is closed."""
        return self._ask().result(self._wait_s_max)

    def _ask(self) -> Future[Sequence[Sample]]:
        """The reading in progress, a recent one, or a new one."""
        with self._lock:
            now = self._clock.monotonic()
            if self._last is None or (self._last.done() and now - self._asked > READING_SHARED_S):
                answer: Future[Sequence[Sample]] = Future()
                self._loop.call_soon_threadsafe(self._answer, answer)
                self._last, self._asked = answer, now
            return self._last

    def _answer(self, answer: Future[Sequence[Sample]]) -> None:
        """Runs on the event loop. The service continues if its metrics fail."""
        try:
            answer.set_result(self._read())
        except Exception as error:
            logger.exception("metrics could not be read")
            answer.set_exception(error)


class _Text:
    """The WSGI application that writes samples as text. Its library is loaded at the first scrape."""

    def __init__(self, metrics: Sequence[Metric], samples: Callable[[], Sequence[Sample]]) -> None:
        self._metrics = metrics
        self._samples = samples
        self._lock = threading.Lock()
        self._application: Application | None = None

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            if self._application is None:
                from strandline.adapters.telemetry.prometheus_text import text_application

                self._application = text_application(self._metrics, self._samples)
        return self._application(environ, start_response)


# --- HTTP -----------------------------------------------------------------------------------


class _Handler(WSGIRequestHandler):
    def setup(self) -> None:
        super().setup()
        assert isinstance(self.server, _Listener), self.server
        self.connection.settimeout(self.server.request_s_max)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: scrapes are not worth a line each."""


class _Listener(ThreadingMixIn, WSGIServer):
    """Uses one thread for each connection, and limits the connections: a new one replaces the
    oldest, so that clients which keep theirs open cannot lock others out."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_port = False
    """A second process on this port must fail."""
    request_queue_size = 64

    def __init__(self, host: str, port: int, text: Application, request_s_max: float) -> None:
        address = host.strip("[]")  # gRPC wants brackets around IPv6
        found = socket.getaddrinfo(address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        self.request_s_max = request_s_max
        self._room = threading.BoundedSemaphore(METRICS_CONNECTIONS_MAX)
        self._open: deque[socket.socket] = deque()
        self._lock = threading.Lock()
        super().__init__(found[0][4][:2], _Handler)  # type: ignore[arg-type]  # a host and a port
        self.set_app(_only_metrics(text))

    def server_bind(self) -> None:
        """Binds as HTTPServer does, without a name lookup for this machine."""
        TCPServer.server_bind(self)
        host, self.server_port = self.server_address[:2]
        self.server_name = str(host)
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self._hang_up_oldest()
            if not self._room.acquire(timeout=ROOM_S_MAX):
                self.shutdown_request(request)
                return
        with self._lock:
            self._open.append(request)
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._leave(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._leave(request)

    def _leave(self, request: socket.socket) -> None:
        with self._lock:
            self._open.remove(request)
        self._room.release()

    def _hang_up_oldest(self) -> None:
        with self._lock:
            oldest = self._open[0] if self._open else None
            if oldest is not None:
                self._open.rotate(-1)  # its thread removes it; the next call closes another one
                _hang_up(oldest)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs a client that was too slow or went away."""
        logger.debug("a scrape was not answered", client=str(client_address), reason=repr(sys.exception()))


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # already closed


def _only_metrics(metrics: Application) -> Application:
    """Serves prometheus_client's application at one path; by itself it answers any path."""

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("PATH_INFO") != PATH:
            return _text_answer("404 Not Found", f"there is {PATH} here", start_response)
        try:
            return metrics(environ, start_response)
        except (TimeoutError, RuntimeError) as error:
            logger.warning("metrics were not read", reason=repr(error))
            return _text_answer("503 Service Unavailable", "the service is busy, or stops", start_response)

    return serve


def _text_answer(status: str, text: str, start_response: Callable[..., Any]) -> list[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{text}\n".encode()]
