"""Finds out whether the process behind a port has ended, without waiting for its session to end.

docs/understand/replication.md, Election, describes the consequences.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from typing import Final

import structlog

from strandline.host import ProbeResult
from strandline.ports import Clock
from strandline.vocabulary.metadata import Endpoint

logger = structlog.get_logger(__name__)

RETRY_S: Final = 0.01
_NO_WAY_THERE: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.ENETUNREACH)
"""Errors of a single address to which this machine has no route, because it has no network of that kind."""


async def probe(
    endpoint: Endpoint, timeout_s: float, clock: Clock, context: ssl.SSLContext | None = None
) -> ProbeResult:
    """Probes a broker's port for at most `timeout_s`. Never raises.

    A connection alone proves nothing: the kernel accepts it for a process that hangs, and for one that is
    being killed, whose connections it closes one by one. So the probe waits for data: an HTTP/2 server speaks
    first. A TLS server does not: with a `context` the probe makes a handshake, and any answer to it counts,
    a refusal too.

    Only a refusal proves that no process listens. Other errors (no route, no name, no descriptors, no ports,
    a firewall) concern the network or this machine.
    """
    try:
        async with asyncio.timeout(timeout_s):
            while not await _speaks(endpoint, context):
                await clock.sleep(RETRY_S)
    except TimeoutError:
        return ProbeResult.NOTHING
    except ConnectionRefusedError:
        return ProbeResult.GONE
    except OSError as error:
        logger.debug(
            "a broker cannot be asked", broker=endpoint.id, address=endpoint.address, reason=str(error)
        )
        return ProbeResult.NOTHING
    return ProbeResult.ALIVE


async def _speaks(endpoint: Endpoint, context: ssl.SSLContext | None) -> bool:
    """False if the connection was closed without data. Raises OSError if there was no connection."""
    try:
        reader, writer = await _connected(endpoint, context)
    except (ConnectionResetError, ssl.SSLEOFError):  # it was accepted, and its process is being killed
        return False
    except ssl.SSLError:
        return True
    try:
        if context is not None:
            return True
        return bool(await reader.read(1))
    except OSError:
        return False
    finally:
        writer.transport.abort()


async def _connected(
    endpoint: Endpoint, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connects to the first of its addresses that accepts, and makes the handshake of the context.

    Raises ConnectionRefusedError if all addresses that this machine has a route to refuse; otherwise the
    OSError of one that does not. Names are resolved separately: uvloop continues a look-up whose caller was
    cancelled, and logs that its failure was never retrieved.
    """
    loop = asyncio.get_running_loop()
    failures: list[OSError] = []
    for *_, address in await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM):
        try:
            return await asyncio.open_connection(
                str(address[0]), endpoint.port, ssl=context, server_hostname=context and endpoint.host
            )
        except ssl.SSLError:
            raise
        except OSError as error:
            failures.append(error)
    refusals = [error for error in failures if isinstance(error, ConnectionRefusedError)]
    others = [error for error in failures if error not in refusals]
    if refusals and all(error.errno in _NO_WAY_THERE for error in others):
        raise refusals[0]
    raise next(iter(others), OSError(f"{endpoint.host} has no address"))
