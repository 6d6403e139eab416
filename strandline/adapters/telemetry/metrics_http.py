"""The HTTP server of metrics: answers each request on its own thread, which makes the TLS handshake too."""

from __future__ import annotations

import socket
import ssl
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import structlog

from strandline.config.limits import METRICS_CONNECTIONS_MAX

logger = structlog.get_logger(__name__)

ROOM_S_MAX: Final = 0.2
"""How long a new connection waits for the end of the oldest one, which it replaces."""

Application = Callable[..., Iterable[bytes]]
"""A WSGI application (PEP 3333)."""


class _Handler(WSGIRequestHandler):
    def setup(self) -> None:
        super().setup()
        assert isinstance(self.server, MetricsListener), self.server
        self.connection.settimeout(self.server.request_s_max)
        if isinstance(self.connection, ssl.SSLSocket):
            self.connection.do_handshake()  # as a whole within that time

    def finish(self) -> None:
        super().finish()
        if isinstance(self.connection, ssl.SSLSocket):
            self.connection.settimeout(0)  # the end of TLS is sent, and the client's is not waited for
            with suppress(OSError, ValueError):
                self.connection.unwrap()

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

    def __init__(
        self,
        host: str,
        port: int,
        application: Application,
        request_s_max: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Raises OSError if it cannot listen. `tls` None: in plaintext."""
        address = host.strip("[]")  # gRPC wants brackets around IPv6
        found = socket.getaddrinfo(address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        self.request_s_max = request_s_max
        self._tls = tls
        self._room = threading.BoundedSemaphore(METRICS_CONNECTIONS_MAX)
        self._open: deque[socket.socket] = deque()
        self._lock = threading.Lock()
        super().__init__(found[0][4][:2], _Handler)  # type: ignore[arg-type]  # a host and a port
        self.set_app(application)

    def server_bind(self) -> None:
        """Binds as HTTPServer does, without a name lookup for this machine."""
        TCPServer.server_bind(self)
        host, self.server_port = self.server_address[:2]
        self.server_name = str(host)
        self.setup_environ()

    def get_request(self) -> tuple[socket.socket, Any]:
        """The next connection. Its handshake is left to its thread."""
        connection, client = super().get_request()
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, client

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
        socket.socket.shutdown(connection, socket.SHUT_RDWR)  # of an SSLSocket: its thread keeps its TLS
    except OSError:
        return  # already closed
