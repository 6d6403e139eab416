"""One connection to a ZooKeeper server, in plaintext or by TLS, as kazoo's connection thread uses it.

It knows ZooKeeper's protocol in one respect: it reads the granted timeout from the handshake, because kazoo
does not expose it.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import Final

from strandline.adapters.zookeeper.connection.tls import ENDED_EARLY, refusal_of
from strandline.ports import Clock

READ_AHEAD_BYTES: Final = 64 * 1024
CONNECT_S_MAX: Final = 1.0
"""The limit for a TCP connect, and for the session's handshake after it. A server that is just starting can
accept and never answer; neither that nor a black hole may delay the next attempt."""

SILENCE_MAX: Final = 2 / 3
"""The part of the session timeout without a byte from the server after which another server is tried."""

SILENCE_S_MIN: Final = 0.45
"""kazoo lets up to 0.4 s pass between two heartbeats, however short the session timeout is."""

_TIMEOUT_FIELD: Final = slice(8, 12)
"""The position of the granted timeout in the handshake's answer: after its length and the protocol
version."""


class ServerSocket:
    """A connection that reads ahead and knows when it last received something.

    `on_refused` gets the reason for which TLS ended the connection; it runs on the connection thread.
    """

    def __init__(self, connected: socket.socket, clock: Clock, on_refused: Callable[[str], None]) -> None:
        self._connected = connected
        self._clock = clock
        self._on_refused = on_refused
        self._ahead = b""
        self._next = 0
        self._greeting = b""
        self._failure: OSError | None = None
        self._over = False
        self.received_at = clock.monotonic()

    @property
    def granted_s(self) -> float:
        """The session timeout that the server granted, seconds; 0 before the handshake's answer."""
        return int.from_bytes(self._greeting[_TIMEOUT_FIELD], "big", signed=True) / 1000

    @property
    def heard(self) -> bool:
        """True if the server has said anything, or has ended the connection."""
        return bool(self._greeting) or self._over or self._failure is not None

    @property
    def silence_left_s(self) -> float:
        """Seconds until the server's silence is too long; 0 or less: it is."""
        allowed = max(self.granted_s * SILENCE_MAX, SILENCE_S_MIN) if self.granted_s else CONNECT_S_MAX
        return self.received_at + allowed - self._clock.monotonic()

    def take_arrived(self) -> bool:
        """Read ahead without waiting. True if `recv` has something to return or to raise.

        Bytes can arrive that are none of ZooKeeper's: a part of a TLS record, or a message of TLS itself.
        """
        if self._next < len(self._ahead) or self._over or self._failure is not None:
            return True
        try:
            self._ahead, self._next = self._connected.recv(READ_AHEAD_BYTES), 0
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError as error:
            self._failure = error
        self._over = self._failure is None and not self._ahead
        if self._over or self._failure is not None:
            self._explain_end()
            return True
        self.received_at = self._clock.monotonic()
        if len(self._greeting) < _TIMEOUT_FIELD.stop:
            self._greeting += self._ahead
        return True

    def _explain_end(self) -> None:
        """TLS 1.3 lets a client finish its handshake before the server has looked at its certificate."""
        if isinstance(self._failure, ssl.SSLError):
            self._on_refused(refusal_of(self._failure))
        elif isinstance(self._connected, ssl.SSLSocket) and not self._greeting:
            self._on_refused(ENDED_EARLY)

    def say(self, word: bytes, wait_s: float) -> None:
        """Send a word and wait for any answer. Raises OSError if there is none."""
        self._connected.settimeout(wait_s)
        self._connected.sendall(word)
        if not self._connected.recv(READ_AHEAD_BYTES):
            raise ConnectionAbortedError("the server said nothing")

    # --- called by kazoo ---------------------------------------------------------------------

    def fileno(self) -> int:
        return self._connected.fileno()

    def setblocking(self, flag: bool) -> None:
        self._connected.setblocking(flag)

    def pending(self) -> int:
        """The number of bytes read ahead, or kept by the TLS layer; kazoo asks for it before it waits for
        the socket."""
        kept = self._connected.pending() if isinstance(self._connected, ssl.SSLSocket) else 0
        return len(self._ahead) - self._next + kept

    def recv(self, size: int) -> bytes:
        """Raises BlockingIOError if nothing has arrived, and what the connection ended with."""
        if self._next == len(self._ahead):
            if not self.take_arrived():
                raise BlockingIOError("nothing has arrived")
            if self._failure is not None:
                raise self._failure
        chunk = self._ahead[self._next : self._next + size]
        self._next += len(chunk)
        return chunk

    def send(self, data: bytes) -> int:
        return self._connected.send(data)

    def close(self) -> None:
        self._connected.close()

    def sever(self) -> None:
        """Break the connection; called from any thread.

        It passes TLS by: `SSLSocket.shutdown` would drop the TLS layer while the connection thread reads,
        which would then take encrypted bytes for answers.
        """
        if self.fileno() >= 0:
            socket.socket.shutdown(self._connected, socket.SHUT_RDWR)
