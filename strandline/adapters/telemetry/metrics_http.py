"""The HTTP server of metrics: answers each request on a thread of its own."""

from __future__ import annotations

import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import structlog

from strandline.config.limits import METRICS_CONNECTIONS_MAX

logger = structlog.get_logger(__name__)

PATH: Final = "/metrics"
ROOM_S_MAX: Final = 0.2
"""How long a new connection waits for the end of the oldest one, which it replaces."""

Application = Callable[..., Iterable[bytes]]
"""A WSGI application (PEP 3333)."""


class _Handler(WSGIRequestHandler):
    def setup(self) -> None:
        super().setup()
        assert isinstance(self.server, MetricsListener), self.server
        self.connection.settimeout(self.server.request_s_max)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: scrapes are not worth a line each."""


class MetricsListener(ThreadingMixIn, WSGIServer):
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
