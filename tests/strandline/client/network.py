"""A network of brokers in memory, for what a real one cannot be made to do on time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from strandline.adapters.codecs.log import METADATA
from strandline.adapters.system_host import system_host
from strandline.errors import BrokerNotAvailable
from strandline.host import Host
from strandline.ids import TopicId
from strandline.ports import Clock, Method, Request, Response, Stream, Transport
from strandline.vocabulary.log import MetadataAnswer, MetadataQuery
from strandline.vocabulary.metadata import ClusterMetadata, Endpoint, PartitionMetadata, TopicMetadata

LONG_S = 30.0


def memory_host(transport: Transport, clock: Clock) -> Host:
    """A host with this network and this clock, and one thread."""
    return replace(system_host(), transport=lambda _key: transport, blocking_transport=None, clock=clock)


Handler = Callable[[MetadataQuery], Awaitable[MetadataAnswer]]


class FastClock:
    """Sleeps in no time, but for the long sleeps of periodic work, which never end."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return int(self.now * 1000)

    async def sleep(self, seconds: float) -> None:
        if seconds >= LONG_S:
            await asyncio.Event().wait()
        self.now += seconds
        await asyncio.sleep(0)


class Network:
    """`Transport` to brokers that answer Metadata; an address without one is unreachable."""

    def __init__(self) -> None:
        self.brokers: dict[str, Handler] = {}
        self.asked: list[str] = []

    async def call(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        self.asked.append(address)
        handler: Callable[[Any], Awaitable[Any]] | None = self.brokers.get(address)
        if handler is None:
            raise BrokerNotAvailable(f"{address} is unreachable from here")
        assert method.path == METADATA.path
        answer: Response = await handler(request)
        return answer

    async def open(
        self, address: str, method: Method[Request, Response], *, timeout_s: float
    ) -> Stream[Request, Response]:
        raise BrokerNotAvailable(f"{address} is unreachable from here")

    async def close(self) -> None:
        self.brokers.clear()


def endpoint(broker: int) -> Endpoint:
    return Endpoint(broker, f"broker{broker}", 9092)


def metadata(
    *leaders: tuple[int, int], brokers: tuple[int, ...] = (1, 2, 3), cluster_id: str = "c"
) -> MetadataAnswer:
    """Topic `t` on brokers 1, 2, 3, with a (leader, epoch) for each partition; none: no topic."""
    partitions = tuple(
        PartitionMetadata(number, leader, epoch, (1, 2, 3), (1, 2, 3))
        for number, (leader, epoch) in enumerate(leaders)
    )
    topics = (TopicMetadata("t", TopicId("0" * 32), partitions),) if leaders else ()
    return MetadataAnswer(ClusterMetadata(cluster_id, tuple(map(endpoint, brokers)), None, topics), {})


def answering(answer: MetadataAnswer) -> Handler:
    async def handle(_query: MetadataQuery) -> MetadataAnswer:
        return answer

    return handle
