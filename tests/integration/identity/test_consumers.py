"""A consumer lives longer than the topic that it reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from strandline import Consumer, LogPosition, RebalanceListener, TopicPartition
from strandline.client.waits import WAITS_LOGGER
from strandline.errors import InvalidRequest, UnknownTopicId, UnknownTopicOrPartition
from strandline.ids import TopicId
from strandline.testing import MemoryCluster

WAIT_S_MAX = 30
P0 = TopicPartition("t", 0)


@pytest.fixture
async def cluster() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(brokers=1, broker_settings={"group_initial_rebalance_delay_ms": 0}) as cluster:
        await cluster.create_topic("t")
        yield cluster


async def written(cluster: MemoryCluster, first: int, count: int) -> list[bytes | None]:
    values = [b"%d" % number for number in range(first, first + count)]
    async with cluster.producer() as producer:
        await (await producer.send_many("t", values))
    return [*values]


async def made_anew(cluster: MemoryCluster, partitions: int = 1) -> None:
    async with cluster.admin() as admin:
        await admin.delete_topics(["t"])
    await cluster.create_topic("t", partitions)


async def read(consumer: Consumer, count: int) -> list[bytes | None]:
    async with asyncio.timeout(WAIT_S_MAX):
        return [(await consumer.getone()).value for _ in range(count)]


@pytest.mark.parametrize("offset_reset", ["earliest", "latest", "none"])
async def test_a_member_reads_a_topic_that_was_made_anew_from_its_first_record(
    cluster: MemoryCluster, offset_reset: str
) -> None:
    """CORRECTNESS G19: the new topic has more records than its position; it commits for the new one."""
    old = await written(cluster, 0, 20)
    async with cluster.admin() as admin, cluster.producer() as producer:
        async with cluster.consumer(group_id="g", offset_reset="earliest") as before:
            before.subscribe(["t"])
            assert await read(before, 1) == old[:1]
            await before.commit()
        async with cluster.consumer(group_id="g", offset_reset=offset_reset) as consumer:
            consumer.subscribe(["t"])
            assert await read(consumer, 19) == old[1:]
            await consumer.commit()
            await made_anew(cluster)
            await (await producer.send_many("t", [b"%d" % number for number in range(100, 200)]))
            assert await read(consumer, 100) == [b"%d" % number for number in range(100, 200)]
            await consumer.commit()
            assert consumer.lag(P0) == 0
        assert {name: each.offset for name, each in (await admin.group_offsets("g")).items()} == {P0: 100}


async def test_a_consumer_of_its_own_reads_a_topic_that_was_made_anew_and_shorter(
    cluster: MemoryCluster,
) -> None:
    """CORRECTNESS G19: its lag is that of the new log."""
    await written(cluster, 0, 20)
    async with cluster.consumer(offset_reset="latest") as consumer:
        consumer.assign([P0])
        consumer.seek(P0, 0)
        await read(consumer, 20)
        await made_anew(cluster)
        new = await written(cluster, 100, 3)
        assert await read(consumer, 3) == new
        assert consumer.lag(P0) == 0


async def test_an_offset_of_the_old_topic_is_not_committed_for_the_new_one(cluster: MemoryCluster) -> None:
    """CORRECTNESS G18, G19: the application commits too late what it has read of the old topic."""
    await written(cluster, 0, 20)
    async with cluster.consumer(group_id="g", offset_reset="earliest") as consumer:
        consumer.subscribe(["t"])
        await read(consumer, 20)
        await made_anew(cluster)
        await written(cluster, 100, 50)
        await read(consumer, 1)
        with pytest.raises(UnknownTopicId, match="made anew"):
            await consumer.commit({P0: 20})
        assert await read(consumer, 49) == [b"%d" % number for number in range(101, 150)]


@pytest.mark.parametrize("offset_reset", ["earliest", "none"])
async def test_a_position_with_an_epoch_that_no_leader_has_had_is_waited_for_aloud(
    cluster: MemoryCluster, caplog: pytest.LogCaptureFixture, offset_reset: str
) -> None:
    """The leader may be behind: an election may be under way. After 2 s a line says what is in the way."""
    values = await written(cluster, 0, 20)
    async with cluster.consumer(offset_reset=offset_reset) as consumer:
        consumer.assign([P0])
        consumer.seek(P0, LogPosition(5, leader_epoch=1000))
        assert await consumer.getmany(timeout_ms=4000) == {}
        (said,) = [each.getMessage() for each in caplog.records if each.name == WAITS_LOGGER]
        assert "t-0 cannot be read yet, for 2 s by now" in said
        assert "of epoch 1000, which is not known here" in said
        consumer.seek(P0, LogPosition(5))
        assert await read(consumer, 15) == values[5:]
        with pytest.raises(InvalidRequest, match="leader epoch of t-0 = 1099511627776"):
            consumer.seek(P0, LogPosition(5, leader_epoch=2**40))
        assert await consumer.position(P0) == 20


async def test_a_partition_that_is_not_there_is_not_said_to_lack_a_leader(
    cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The topic may grow, or be made anew, so it is waited for; the line says for what."""
    async with cluster.consumer(request_timeout_ms=4000) as consumer:
        with pytest.raises(UnknownTopicOrPartition, match="there is no 9"):
            await consumer.beginning_offsets([TopicPartition("t", 9)])
    said = [each.getMessage() for each in caplog.records if each.name == WAITS_LOGGER]
    assert said and all("t-9 is waited for, for " in line and "there is no 9" in line for line in said)


async def test_partitions_that_a_topic_made_anew_lacks_are_not_said_to_lack_a_leader(
    cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The member hears late of it, with its next metadata; until then it looks for what is gone."""
    await made_anew(cluster, partitions=4)
    async with cluster.consumer(group_id="g", offset_reset="earliest", metadata_max_age_ms=8000) as consumer:
        consumer.subscribe(["t"])
        await written(cluster, 0, 20)
        await read(consumer, 20)
        await made_anew(cluster, partitions=1)
        new = await written(cluster, 100, 20)
        assert await read(consumer, 20) == new
        async with asyncio.timeout(WAIT_S_MAX):
            while consumer.assignment() != {P0}:
                _ = await consumer.getmany(timeout_ms=20)
    said = [each.getMessage() for each in caplog.records if each.name == WAITS_LOGGER]
    assert not [line for line in said if "no leader" in line], said


async def test_twenty_incarnations_are_read_whole_by_a_group_of_two(cluster: MemoryCluster) -> None:
    """CORRECTNESS G19: one member reads, the other may take its partition at any time."""
    async with (
        cluster.consumer(group_id="g", offset_reset="earliest") as one,
        cluster.consumer(group_id="g", offset_reset="earliest") as two,
    ):
        for consumer in (one, two):
            consumer.subscribe(["t"])
        for round_ in range(20):
            wanted = set(await written(cluster, round_ * 100, 30))
            async with asyncio.timeout(WAIT_S_MAX):
                while wanted:
                    for consumer in (one, two):
                        batches = await consumer.getmany(timeout_ms=20)
                        wanted -= {record.value for records in batches.values() for record in records}
            await made_anew(cluster)


async def test_a_listener_hears_once_of_a_topic_that_was_made_anew(cluster: MemoryCluster) -> None:
    """With both ids, however many of its partitions it has."""
    heard: list[tuple[str, str, str]] = []

    class Heard(RebalanceListener):
        def on_topic_recreated(self, topic: str, before: TopicId, now: TopicId) -> None:
            heard.append((topic, before, now))

    async with cluster.admin() as admin, cluster.consumer(group_id="g", offset_reset="earliest") as consumer:
        await admin.alter_topic("t", partitions=2)
        (old,) = await admin.describe_topics(["t"])
        await written(cluster, 0, 20)
        consumer.subscribe(["t"], listener=Heard())
        await read(consumer, 20)
        await made_anew(cluster, 2)
        await written(cluster, 100, 50)
        await read(consumer, 50)
        (new,) = await admin.describe_topics(["t"])
        assert heard == [("t", old.topic_id, new.topic_id)]
