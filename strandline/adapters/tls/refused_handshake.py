"""Finds out why a port cannot be reached by gRPC, which says no more than that the socket was closed.

A client that takes a refused certificate for a broker that is down would try without end. So after a failed
attempt the handshake is made once more, by Python's own TLS.
"""

from __future__ import annotations

import socket
import ssl
from typing import Final

from strandline.adapters.tls.handshake import reason
from strandline.adapters.tls.pem import HTTP2
from strandline.adapters.tls.reloaded import ReloadedPem

LOOK_S_MAX: Final = 3.0
"""The longest silence in such a handshake, also of a busy machine. A silent port gives no reason."""
_REFUSED_AFTERWARDS: Final = ""
"""The server closed the connection after a handshake that the client thought finished."""


def why_refused(address: str, pem: ReloadedPem | None) -> str | None:
    """The reason, for people; None: no server answers there, or it refuses nothing.

    `pem` as of the failed attempt; None: it was in plaintext. Blocks. Never raises.
    """
    if pem is None:
        return (
            "this port speaks TLS: set security_protocol = SSL or SASL_SSL" if _speaks_tls(address) else None
        )
    found = _look(address, pem)
    if found == _REFUSED_AFTERWARDS:
        # A server that is being killed may close a connection like that too; it does not do so twice.
        found = _look(address, pem)
    return _own_fault(pem) if found == _REFUSED_AFTERWARDS else found


def _look(address: str, pem: ReloadedPem) -> str | None:
    host, port = _parts(address)
    try:
        with _connected(pem.now().client, host, port) as connection:
            if connection.selected_alpn_protocol() != HTTP2:
                return "this port speaks TLS, but not gRPC: it may be one for Kafka clients"
            return None if connection.recv(1) else _REFUSED_AFTERWARDS
    except ssl.SSLCertVerificationError as error:
        return f"the server's certificate is refused: {error.verify_message}"
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
        return None
    except ssl.SSLError as error:
        if _is_alert(error):
            return f"the server refuses the connection: {reason(error)}"
        return f"this port speaks plaintext, or another protocol ({reason(error)}): see security_protocol"
    except (OSError, ValueError):  # unreachable, or silent
        return None


def _connected(context: ssl.SSLContext, host: str, port: int) -> ssl.SSLSocket:
    """A connection, after its handshake. Raises OSError.

    It is wrapped before it connects: Python leaves a connected socket open that its peer resets before it is
    wrapped, as one of a broker that is killed.
    """
    failure = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connection = context.wrap_socket(socket.socket(family, kind, protocol), server_hostname=host)
        try:
            connection.settimeout(LOOK_S_MAX)
            connection.connect(address)
        except OSError as error:
            connection.close()
            if isinstance(error, ssl.SSLError):  # it answers
                raise
            failure = error
        else:
            return connection
    raise failure


def _own_fault(pem: ReloadedPem) -> str:
    """Servers of gRPC send no reason. Only the client's certificate is left as one."""
    if pem.now().identity is None:
        return "the server demands a certificate: set ssl_certfile and ssl_keyfile"
    return (
        f"the server refuses this client's certificate: {pem.complaint() or 'its authority is unknown there'}"
    )


def _speaks_tls(address: str) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with _connected(context, *_parts(address)):
            return True
    except ssl.SSLError as error:
        return _is_alert(error)
    except (OSError, ValueError):
        return False


def _is_alert(error: ssl.SSLError) -> bool:
    """True if the peer sent an alert, so that it speaks TLS."""
    return "ALERT" in (error.reason or "")


def _parts(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
