"""A producer as an application starts it: again and again, as long as no broker answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from strandline.errors import BrokerNotAvailable
from strandline.host import Host
from strandline.producer.producer import Producer

AGAIN_S: Final = 0.1


@asynccontextmanager
async def producing(bootstrap: list[str], host: Host, **settings: Any) -> AsyncIterator[Producer]:
    """A producer that has started, and stops in the end."""
    while True:
        producer = Producer(bootstrap, host=host, **settings)
        try:
            await producer.start()
            break
        except BrokerNotAvailable:
            await host.clock.sleep(AGAIN_S)
    try:
        yield producer
    finally:
        await producer.stop()
