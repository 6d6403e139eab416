"""Whether the process behind a port is gone, asked without waiting for its session to end.

docs/replication.md, Election, says what follows from it.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from enum import Enum
from typing import Final

from strandline.metadata import Endpoint
from strandline.ports import Clock

RETRY_S: Final = 0.01
_OWN_FAULTS: Final = (errno.EMFILE, errno.ENFILE)
"""What keeps this process from connecting to anybody."""


class Heard(Enum):
    """What was heard of a process at its port."""

    ALIVE = "alive"
    """It said something."""
    GONE = "gone"
    """The port is closed, or its host cannot be reached."""
    NOTHING = "nothing"
    """Neither: it hangs, or the network does. Its session decides."""


async def probe(endpoint: Endpoint, timeout_s: float, clock: Clock) -> Heard:
    """What is heard within `timeout_s`. Never raises.

    To be connected proves nothing: the kernel accepts in the name of a process that hangs, and of one that is
    just being killed, whose connections it closes one by one. An HTTP/2 server speaks first.
    """
    try:
        async with asyncio.timeout(timeout_s):
            while not await _speaks(endpoint):
                await clock.sleep(RETRY_S)
    except TimeoutError:
        return Heard.NOTHING
    except OSError as error:
        return Heard.NOTHING if error.errno in _OWN_FAULTS else Heard.GONE
    return Heard.ALIVE


async def _speaks(endpoint: Endpoint) -> bool:
    """False if it closed the connection without a word. Raises OSError if there was no connection."""
    reader, writer = await _connected(endpoint)
    try:
        return bool(await reader.read(1))
    except OSError:
        return False
    finally:
        writer.transport.abort()


async def _connected(endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """By the first of its addresses that takes it. Raises OSError.

    Names are looked up apart: uvloop goes on with a look-up whose caller was cancelled, and complains that
    nobody heard of its failure.
    """
    loop = asyncio.get_running_loop()
    failure = OSError(f"{endpoint.host} has no address")
    for *_, address in await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM):
        try:
            return await asyncio.open_connection(str(address[0]), endpoint.port)
        except OSError as error:
            failure = error
    raise failure
