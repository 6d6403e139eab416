"""Notices a ZooKeeper that was set back to an older state while this process ran (CORRECTNESS E21).

ZooKeeper numbers its transactions, and a server refuses a client that has seen a higher number than its own:
it closes the connection and says nothing. If a server lags, another one takes the client. If all of ZooKeeper
was restored from a copy, none does. To begin a session is a transaction too, so a session that begins now has
a higher number than any that was seen before, unless ZooKeeper was set back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

import structlog

from strandline.errors import SettingsError
from strandline.host import CoordinationSession
from strandline.ports import Clock, ConnectionLost, Coordination, LinkState, SessionEnded

logger = structlog.get_logger(__name__)

UNCONNECTED_S: Final = 3.0
"""A session that is without a connection for this long is looked into."""
LOOK_AGAIN_S: Final = 15.0
"""After a look that found nothing: ZooKeeper is well, and the session has not found that out."""
SAID_EVERY_S: Final = 60.0
"""How often the log repeats that there is still no connection."""

Connect = Callable[[Callable[[float], None]], Awaitable[CoordinationSession]]
"""Begins another session; calls the function about once a second with the seconds waited."""


class SetBack(SessionEnded):
    """ZooKeeper holds an older state than this process has seen. What the process knows is void."""


async def until_set_back(session: Coordination, connect: Connect, clock: Clock) -> NoReturn:
    """Raises SetBack once ZooKeeper is older than what this session has seen. Logs that there is no
    connection, while that lasts."""
    connected = asyncio.Event()

    def changed(state: LinkState) -> None:
        if state is LinkState.SUSPENDED:
            connected.clear()
            suspended.set()
        else:
            connected.set()

    suspended = asyncio.Event()
    session.on_state(changed)
    changed(session.state)
    while True:
        await suspended.wait()
        suspended.clear()
        if not await _returns(connected, UNCONNECTED_S):
            await _look_into(session, connect, clock, connected)


async def _returns(connected: asyncio.Event, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await connected.wait()
    except TimeoutError:
        return False
    return True


async def _look_into(session: Coordination, connect: Connect, clock: Clock, connected: asyncio.Event) -> None:
    """Returns once the session is connected again. Raises SetBack."""
    began, seen, said = clock.monotonic() - UNCONNECTED_S, session.zxid, 0.0

    def say(_waited_s: float = 0.0) -> None:
        nonlocal said
        if not said or clock.monotonic() - said >= SAID_EVERY_S:
            said = clock.monotonic()
            logger.warning("no connection to ZooKeeper", seconds=round(clock.monotonic() - began))

    while not connected.is_set():
        say()
        async with asyncio.TaskGroup() as tasks:
            looking = tasks.create_task(_holds(connect, say, clock))
            waiting = tasks.create_task(connected.wait())
            await asyncio.wait((looking, waiting), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            looking.cancel()
        if not looking.cancelled() and looking.result() < seen:
            logger.error(
                "ZooKeeper was set back: this process starts anew with what it holds now",
                seen=f"{seen:x}",
                holds=f"{looking.result():x}",
            )
            raise SetBack("ZooKeeper is older than what this process has seen: it was set back")
        await _returns(connected, LOOK_AGAIN_S)
    logger.info("connected to ZooKeeper again", seconds=round(clock.monotonic() - began))


async def _holds(connect: Connect, on_waiting: Callable[[float], None], clock: Clock) -> int:
    """The number of ZooKeeper's newest transaction, as a session has it that begins now."""
    while True:
        try:
            other = await connect(on_waiting)
        except SettingsError as error:  # it is for the session's own attempts to decide on this
            logger.debug("no other session", reason=str(error))
            await clock.sleep(UNCONNECTED_S)
            continue
        try:
            await other.sync()
            await other.exists("/")
            return other.zxid
        except (ConnectionLost, SessionEnded) as error:
            logger.debug("the other session has not answered", reason=str(error))
        finally:
            await other.close()
