"""Clients as applications start them: again and again, as long as no broker answers.

The start of a producer, and of a member of a stream application, asks brokers, and fails if it reaches none.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, TypeVar

from strandline.client.scope import Startable
from strandline.errors import BrokerNotAvailable
from strandline.host import Host
from strandline.producer.producer import Producer

AGAIN_S: Final = 0.1

StartableT = TypeVar("StartableT", bound=Startable)


@asynccontextmanager
async def started(new: Callable[[], StartableT], host: Host) -> AsyncIterator[StartableT]:
    """A client that has started, and stops in the end. `new` makes another one for each try."""
    while True:
        client = new()
        try:
            await client.start()
            break
        except BrokerNotAvailable:
            await host.clock.sleep(AGAIN_S)
    try:
        yield client
    finally:
        await client.stop()


def producing(bootstrap: list[str], host: Host, **settings: Any) -> AbstractAsyncContextManager[Producer]:
    """A producer that has started, and stops in the end."""
    return started(lambda: Producer(bootstrap, host=host, **settings), host)
