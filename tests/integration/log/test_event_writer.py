"""Events written into a topic of a real cluster: all of them, in order, once."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from strandline import Admin, Consumer
from strandline.adapters.codecs.admin import CREATE_TOPICS
from strandline.adapters.system.clock import SystemClock
from strandline.client.events.writer import EventWriter
from strandline.errors import BrokerNotAvailable, TopicAlreadyExists, UnknownTopicOrPartition
from strandline.ids import TopicPartition
from strandline.local.cluster import LocalCluster
from strandline.vocabulary.admin import CreateTopics, NewTopic
from tests.integration.groups.support.member_calls import member_transport
from tests.integration.support.harness import Harness
from tests.waiting import eventually

pytestmark = pytest.mark.slow


_numbers = itertools.count(1)


@asynccontextmanager
async def writer(
    cluster: LocalCluster,
    *,
    events_max: int = 100_000,
    partitions: int = 1,
    down: bool = False,
    prefix: str = "__",
) -> AsyncIterator[EventWriter]:
    """A writer to a topic of its own. `down`: the first tries to make the topic fail."""
    topic = f"{prefix}events_{next(_numbers)}"
    transport = await member_transport(cluster)
    failures = itertools.count()

    async def prepare() -> None:
        if down and next(failures) < 3:
            raise BrokerNotAvailable("no controller")
        async with Admin(cluster.bootstrap) as admin:
            controller = (await admin.metadata([])).controller
        assert controller is not None
        request = CreateTopics([NewTopic(topic, partitions, 3)], validate_only=False, internal=True)
        (result,) = await transport.call(controller.address, CREATE_TOPICS, request, timeout_s=10)
        assert result.error is None or isinstance(result.error, TopicAlreadyExists), result.error

    async with EventWriter(
        cluster.bootstrap,
        topic,
        events_max=events_max,
        prepare=prepare,
        transport=await member_transport(cluster),
        clock=SystemClock(),
    ) as found:
        yield found
    await transport.close()


async def read(
    cluster: LocalCluster, topic: str, *, count: int, partitions: int = 1
) -> list[tuple[str, str]]:
    """(key, value) of the first `count` records, and it is an error if there are more."""
    async with Consumer(cluster.bootstrap, offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        found: list[tuple[str, str]] = []

        async def complete() -> bool:
            for records in (await consumer.getmany(timeout_ms=50)).values():
                found.extend(((r.key or b"").decode(), (r.value or b"").decode()) for r in records)
            return len(found) >= count

        await eventually(complete, deadline_s=20)
        assert not await consumer.getmany(timeout_ms=200)
        return found


async def test_events_are_written_in_order_and_once_over_the_death_of_the_leader(harness: Harness) -> None:
    """At least once is not enough for readers that count events: the producer id drops repeated ones."""
    cluster = harness.cluster
    async with writer(cluster) as events:
        for number in range(500):
            events.put(b"k", str(number).encode(), number)
        await eventually(lambda: events.written == 500)
        (state,) = await harness.brokers.metadata(cluster.broker_ids[0], events.topic)
        for number in range(500, 3_000):
            events.put(b"k", str(number).encode(), number)
        await cluster.kill_broker(state.leader)
        for number in range(3_000, 4_000):
            events.put(b"k", str(number).encode(), number)
        assert await events.flush(30)
        assert (events.written, events.dropped) == (4_000, 0)
        found = await read(cluster, events.topic, count=4_000)
        assert [value for _, value in found] == [str(number) for number in range(4_000)]


async def test_events_of_one_key_keep_their_order_over_many_partitions(harness: Harness) -> None:
    async with writer(harness.cluster, partitions=4, down=True) as events:
        for number in range(1_000):
            events.put(f"k{number % 7}".encode(), str(number).encode(), number)
        assert await events.flush(30)
        found = await read(harness.cluster, events.topic, count=1_000, partitions=4)
        for key in {key for key, _ in found}:
            numbers = [int(value) for found_key, value in found if found_key == key]
            assert numbers == sorted(numbers), key
            assert len(numbers) == len([n for n in range(1_000) if f"k{n % 7}" == key])


async def test_a_topic_that_is_deleted_under_the_writer_is_made_again(harness: Harness) -> None:
    """The numbers that the writer has reached are not a new topic's next ones: another producer id is."""
    async with writer(harness.cluster, prefix="") as events:
        name = TopicPartition(events.topic, 0)

        async def gone() -> bool:
            """A leader may take records until it hears that its topic is deleted."""
            ends = [await harness.brokers.latest(broker, name) for broker in harness.brokers.ids]
            return all(end is not None and isinstance(end.error, UnknownTopicOrPartition) for end in ends)

        events.put(b"k", b"of the first", 1)
        assert await events.flush(30)
        async with Admin(harness.cluster.bootstrap) as admin:
            await admin.delete_topics([events.topic])
        await eventually(gone)
        events.put(b"k", b"of the second", 2)
        assert await events.flush(30)
        found = await read(harness.cluster, events.topic, count=1)
        assert [value for _, value in found] == ["of the second"]
