"""The topics that a producer sends to. The first calls for a topic wait for its metadata."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from math import inf
from typing import Any, Final, Generic, NamedTuple, TypeVar

from strandline.client import arguments
from strandline.client.cluster import Cluster
from strandline.client.scope import Scope
from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.config.producer import ProducerSettings
from strandline.errors import InvalidRequest, StrandlineError, UnknownTopicOrPartition
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.producer.core.accumulator import Accumulator
from strandline.producer.core.batch import PartitionQueue, Ticket
from strandline.producer.core.effects import Effect
from strandline.producer.routes import Route
from strandline.vocabulary.log_position import same_topic
from strandline.vocabulary.metadata import TopicMetadata
from strandline.vocabulary.topic_config import TopicConfig

T = TypeVar("T")

ASKED_AGAIN_S: Final = 1.0
"""A topic's limit is requested anew for a record that exceeds it, but not sooner than this."""

logger = logging.getLogger(__name__)


def number_of(partition: object) -> int:
    """The number of a partition. Raises InvalidRequest."""
    if type(partition) is int:
        return partition  # also one that no topic has
    return arguments.whole("partition", partition, 0, arguments.INT32_MAX)


class _Call(NamedTuple):
    """A call that waits for a topic's route."""

    act: Callable[[Route[Any]], Any]
    ended: asyncio.Future[Any]


class Topics(Generic[Ticket]):
    """Finds the route of a topic. `on_partition` is called with each partition that has a new queue."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator[Ticket],
        settings: ProducerSettings,
        scope: Scope,
        clock: Clock,
        on_partition: Callable[[TopicPartition], None],
        carry_out: Callable[[list[Effect[Ticket]]], None],
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._settings = settings
        self._scope = scope
        self._clock = clock
        self._on_partition = on_partition
        self._carry_out = carry_out
        self.known: dict[str, Route[Ticket]] = {}
        """By topic. A call for one of these waits for nothing."""
        self._waiting: dict[str, list[_Call]] = {}
        """The calls for the topics whose metadata is requested, the oldest first."""
        self._asked_again: dict[str, float] = {}
        """When a topic's metadata was last requested for a record that was too large (monotonic seconds)."""

    async def call(self, topic: str, act: Callable[[Route[Ticket]], T]) -> T:
        """The result of `act` with the topic's route; the metadata of an unknown topic is requested.

        Calls that wait for the same topic act in their order, and before any call that begins later: all
        of them at the moment at which the topic becomes known, and not when their tasks continue. They
        fail together. Raises UnknownTopicOrPartition, BrokerNotAvailable, as `Scope.check`, and as `act`.
        """
        self._scope.check()
        route = self.known.get(topic)
        if route is not None:
            return act(route)
        if topic not in self._waiting:
            self._scope.spawn(self._open(topic), f"metadata of {topic}")
            self._waiting[topic] = []
        ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting[topic].append(_Call(act, ended))
        return await ended

    async def _open(self, topic: str) -> None:
        """Ends the calls that wait for this topic; `give_up` does if this is cancelled."""
        try:
            route = self._route(await self._cluster.topic(topic))
            self.known[topic] = route
            for queue in tuple(route.queues):
                self._on_partition(queue.name)
            self._go_on(route)
        except StrandlineError as error:
            self._fail(topic, error)
        except Exception as error:  # its calls fail, as each of them would have without the others
            logger.exception("the metadata of a topic could not be used")
            self._fail(topic, InvalidRequest(f"topic {topic!r}: its metadata could not be used: {error!r}"))

    def give_up(self, error: BaseException | None) -> None:
        """Fail the calls that wait: the producer has stopped, or failed with this error."""
        for topic in tuple(self._waiting):
            how = "stopped" if error is None else f"failed ({error})"
            self._fail(topic, InvalidRequest(f"the producer {how} before it knew topic {topic!r}"))

    def _fail(self, topic: str, error: StrandlineError) -> None:
        for _act, ended in self._waiting.pop(topic, ()):
            if not ended.done():
                ended.set_exception(error)

    def _go_on(self, route: Route[Ticket]) -> None:
        for act, ended in self._waiting.pop(route.topic):
            if ended.done():
                continue  # its caller was cancelled
            try:
                result = act(route)
            except Exception as error:  # the caller's
                ended.set_exception(error)
            else:
                ended.set_result(result)

    def _route(self, metadata: TopicMetadata) -> Route[Ticket]:
        bytes_max, size_max = self._limits(metadata)
        names = [TopicPartition(metadata.name, partition.partition) for partition in metadata.partitions]
        queues = [self._accumulator.queue(name, size_max, metadata.topic_id) for name in names]
        identity = self._accumulator.identity
        turn = 0 if identity is None else identity.producer_id
        return Route(metadata.name, metadata.topic_id, queues, bytes_max, turn=turn)

    def _limits(self, metadata: TopicMetadata) -> tuple[int, int]:
        """The topic's limit for one batch, and the size of a batch of several records."""
        bytes_max = min(TopicConfig.parse(metadata.config).max_message_bytes, RECORDS_BYTES_MAX)
        return bytes_max, min(self._settings.batch_bytes, bytes_max)

    # --- topics that change ------------------------------------------------------------------

    def learned(self, metadata: TopicMetadata) -> None:
        """The topic may have other limits now, or be another one under the same name."""
        route = self.known.get(metadata.name)
        if route is None or not metadata.partitions:
            return
        route.bytes_max, size_max = self._limits(metadata)
        if same_topic(route.topic_id, metadata.topic_id):
            for queue in route.queues:
                queue.size_max = size_max
        else:
            self._begin_anew(route, metadata, size_max)

    def _begin_anew(self, route: Route[Ticket], metadata: TopicMetadata, size_max: int) -> None:
        count = len(metadata.partitions)
        logger.warning(
            "topic %s was made anew: topic id %s instead of %s; it gets what was not acknowledged",
            route.topic, metadata.topic_id, route.topic_id,
        )  # fmt: skip
        gone = UnknownTopicOrPartition(
            f"{route.topic} was made anew, with topic id {metadata.topic_id} and partitions 0 to "
            f"{count - 1}: send to one of these"
        )
        for queue in route.begin_anew(metadata.topic_id, count):
            self._carry_out(self._accumulator.end(queue, gone))
        for queue in route.queues:
            self._carry_out(self._accumulator.begin_anew(queue, metadata.topic_id, size_max))

    async def takes_more(self, route: Route[Any]) -> bool:
        """Whether the topic takes larger batches by now. Its metadata is requested, once a second at most."""
        before, now = route.bytes_max, self._clock.monotonic()
        if now < self._asked_again.get(route.topic, -inf) + ASKED_AGAIN_S:
            return False
        self._asked_again[route.topic] = now
        await self._cluster.refresh([route.topic])
        return route.bytes_max > before

    async def chosen(self, route: Route[Ticket], partition: int) -> PartitionQueue[Ticket]:
        """A partition by its number. Metadata is requested for an unknown one: the topic may have grown.

        Raises InvalidRequest unless it is a number."""
        if type(partition) is not int:
            partition = number_of(partition)
        if partition >= len(route.queues):
            await self._cluster.topic(route.topic, partitions_min=partition + 1)
        return route.chosen(partition)

    def grown(self, name: TopicPartition) -> PartitionQueue[Ticket] | None:
        """The queue of a new partition of a topic in use; None for any other partition. One that was in an
        earlier topic of the name is not new: its leader may still be sought."""
        route, topic = self.known.get(name.topic), self._cluster.known_topic(name.topic)
        if route is None or topic is None or not len(route.queues) == name.partition < len(topic.partitions):
            return None
        queue = self._accumulator.queue(name, route.size_max, route.topic_id)
        route.queues.append(queue)
        return queue
