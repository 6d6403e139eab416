"""A coordinator and brokers in memory, which answer what a test wants them to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

from strandline.adapters.codecs.groups import FIND_COORDINATOR
from strandline.adapters.codecs.log import METADATA, PARTITION_COUNTS
from strandline.adapters.system.clock import SystemClock
from strandline.client.cluster import Cluster
from strandline.client.coordinator import Coordinator
from strandline.client.reading.partition_reader import PartitionReader
from strandline.client.reading.records import FetchedBatch
from strandline.client.reading.wakeups import Wakeups
from strandline.client.scope import Scope
from strandline.config.consumer import ConsumerSettings
from strandline.consumer.delivery import RecordDelivery
from strandline.errors import BrokerNotAvailable, StrandlineError, UnknownTopicOrPartition
from strandline.ids import NO_BROKER, TopicId, TopicPartition
from strandline.ports import Method, Request, Response, Stream
from strandline.records import Codec, encode_values, validate
from strandline.vocabulary.log import MetadataAnswer, MetadataQuery
from strandline.vocabulary.metadata import ClusterMetadata, Endpoint, PartitionMetadata, TopicMetadata
from tests.strandline.client.network import FastClock

BROKERS = [Endpoint(number, f"broker{number}", 9092) for number in (1, 2)]


class Brokers:
    """`Transport` to two brokers. `answers` has a function for each RPC, by the last part of its path."""

    def __init__(self) -> None:
        self.coordinator = BROKERS[0]
        self.topics: dict[str, int] = {}
        self.leaders: dict[TopicPartition, int] = {}
        """Others have none."""
        self.metadata_error: StrandlineError | None = None
        """What a request for metadata is refused with."""
        self.epoch = 0
        self.answers: dict[str, Callable[[Any], Any]] = {}
        self.asked: list[tuple[str, str]] = []
        """Address and RPC of all that was asked but for metadata."""

    async def call(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        await asyncio.sleep(0)
        if method.path == METADATA.path:
            assert isinstance(request, MetadataQuery)
            if self.metadata_error is not None:
                raise self.metadata_error
            answer: Any = self._metadata(request)
            return answer  # type: ignore[no-any-return]  # the method's own
        if method.path == PARTITION_COUNTS.path:
            counts: Any = {n: count for n, count in self.topics.items() if not request or n in request}  # type: ignore[operator]
            return counts  # type: ignore[no-any-return]
        name = method.path.rsplit("/", 1)[-1]
        self.asked.append((address, name))
        answer = self.coordinator if method.path == FIND_COORDINATOR.path else self.answers[name](request)
        if asyncio.iscoroutine(answer):
            answer = await answer
        if isinstance(answer, StrandlineError):
            raise answer
        return answer  # type: ignore[no-any-return]

    def _metadata(self, query: MetadataQuery) -> MetadataAnswer:
        wanted = self.topics if not query.topics else [name for name in query.topics if name in self.topics]
        topics = tuple(
            TopicMetadata(
                name,
                TopicId("0" * 32),
                tuple(
                    PartitionMetadata(
                        number,
                        self.leaders.get(TopicPartition(name, number), NO_BROKER),
                        self.epoch,
                        (),
                        (),
                    )
                    for number in range(self.topics[name])
                ),
            )
            for name in wanted
        )
        errors: dict[str, StrandlineError] = {
            name: UnknownTopicOrPartition(name) for name in query.topics or () if name not in self.topics
        }
        return MetadataAnswer(ClusterMetadata("c", tuple(BROKERS), None, topics), errors)

    async def open(
        self, address: str, method: Method[Request, Response], *, timeout_s: float
    ) -> Stream[Request, Response]:
        raise BrokerNotAvailable(f"{address} takes no streams")

    async def close(self) -> None:
        self.answers.clear()


class SlowClock(FastClock):
    """Sleeps for as long as it is asked to."""

    monotonic = staticmethod(SystemClock().monotonic)
    sleep = staticmethod(SystemClock().sleep)


class Parts:
    """The parts of a consumer, without a membership: the test assigns and fills the partitions."""

    def __init__(self, clock: FastClock | None = None, **settings: Any) -> None:
        self.brokers = Brokers()
        self.clock = clock or FastClock()
        self.settings = ConsumerSettings(group_id="g", **settings)
        self.cluster = Cluster("broker1:9092", self.settings, self.brokers, self.clock)
        self.scope = Scope("consumer", lambda _: None)
        self.wakeups = Wakeups(self.clock)
        self.coordinator = Coordinator(
            "g", cluster=self.cluster, transport=self.brokers, settings=self.settings, clock=self.clock
        )
        self.reader = PartitionReader(
            cluster=self.cluster,
            scope=self.scope,
            wakeups=self.wakeups,
            settings=self.settings,
            clock=self.clock,
        )
        self.delivery = RecordDelivery(
            reader=self.reader,
            scope=self.scope,
            wakeups=self.wakeups,
            settings=self.settings,
            clock=self.clock,
        )

    async def __aenter__(self) -> Self:
        await self.scope.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.scope.stop()

    def assign(self, *names: TopicPartition, offset: int = 0) -> None:
        """Assign with a position and without a leader, so that nothing is fetched."""
        self.reader.positions.add(names)
        for name in names:
            self.reader.positions.seek(name, offset)

    def arrive(
        self, name: TopicPartition, how_many: int, value: bytes = b"v", codec: Codec = Codec.NONE
    ) -> None:
        """One batch of the partition, as if fetched."""
        state = self.reader.positions[name]
        data = encode_values([value] * how_many, 0, base_offset=state.fetch_offset, codec=codec)
        for header in validate(data):
            batch = FetchedBatch(name, header, data, state.fetch_offset)
            self.reader.positions.buffer(name, batch, header.size, header.next_offset)
        self.wakeups.arrived()
