"""Whether the process behind a port is gone, asked without waiting for its session to end.

docs/understand/replication.md, Election, says what follows from it.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from enum import Enum
from typing import Final

import structlog

from strandline.ports import Clock
from strandline.vocabulary.metadata import Endpoint

logger = structlog.get_logger(__name__)

RETRY_S: Final = 0.01
_NO_WAY_THERE: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.ENETUNREACH)
"""Of one address among several: this machine has no way to it, for it has no network of that kind."""


class Heard(Enum):
    """What was heard of a process at its port."""

    ALIVE = "alive"
    """It said something."""
    GONE = "gone"
    """Its host refuses connections to the port."""
    NOTHING = "nothing"
    """Neither: it hangs, or the network does, or this machine cannot connect. Its session decides."""


async def probe(endpoint: Endpoint, timeout_s: float, clock: Clock) -> Heard:
    """What is heard within `timeout_s`. Never raises.

    To be connected proves nothing: the kernel accepts in the name of a process that hangs, and of one that is
    just being killed, whose connections it closes one by one. An HTTP/2 server speaks first.

    Only a refusal says that nobody listens. What else keeps this process from connecting (no route, no name,
    no descriptors, no ports, a firewall) says something about the way, or about this machine.
    """
    try:
        async with asyncio.timeout(timeout_s):
            while not await _speaks(endpoint):
                await clock.sleep(RETRY_S)
    except TimeoutError:
        return Heard.NOTHING
    except ConnectionRefusedError:
        return Heard.GONE
    except OSError as error:
        logger.debug(
            "a broker cannot be asked", broker=endpoint.id, address=endpoint.address, reason=str(error)
        )
        return Heard.NOTHING
    return Heard.ALIVE


async def _speaks(endpoint: Endpoint) -> bool:
    """False if it closed the connection without a word. Raises OSError if there was no connection."""
    try:
        reader, writer = await _connected(endpoint)
    except ConnectionResetError:  # it was accepted, and its process is just being killed
        return False
    try:
        return bool(await reader.read(1))
    except OSError:
        return False
    finally:
        writer.transport.abort()


async def _connected(endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connects to the first of its addresses that accepts.

    Raises ConnectionRefusedError if each of them refuses that this machine has a way to, otherwise the
    OSError of one that does not. Names are looked up apart: uvloop goes on with a look-up whose caller was
    cancelled, and complains that nobody heard of its failure.
    """
    loop = asyncio.get_running_loop()
    failures: list[OSError] = []
    for *_, address in await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM):
        try:
            return await asyncio.open_connection(str(address[0]), endpoint.port)
        except OSError as error:
            failures.append(error)
    refusals = [error for error in failures if isinstance(error, ConnectionRefusedError)]
    others = [error for error in failures if error not in refusals]
    if refusals and all(error.errno in _NO_WAY_THERE for error in others):
        raise refusals[0]
    raise next(iter(others), OSError(f"{endpoint.host} has no address"))
