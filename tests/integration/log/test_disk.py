"""A disk that takes no more: the partition fences itself, another replica leads, nothing is lost."""

from __future__ import annotations

import asyncio
import os
import resource
import socket

import pytest

from strandline import Consumer, Producer
from tests.integration.support.harness import Harness, Topic
from tests.integration.support.workload import workload
from tests.waiting import eventually

SEGMENT_BYTES = 64 * 1024
"""The bytes that the load writes before the disk is full: more than any other file of a broker holds."""


async def fill_disk_of(broker: int, topic: Topic) -> None:
    """From now on no file of this broker may grow beyond the size of the partition's segment, and a little
    more: appends fail with EFBIG, as they would with ENOSPC. The process's output is far shorter."""

    def size() -> int:
        return max(file.stat().st_size for file in topic.folder(broker).glob("*.log"))

    await eventually(lambda: size() > SEGMENT_BYTES, deadline_s=60, what="the segment has grown")
    pid = topic.local.cluster.pid(broker)
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size() + 4_096, hard))


@pytest.mark.timeout(120)
async def test_a_leader_that_cannot_append_gives_up_and_loses_nothing(own: Harness) -> None:
    """CORRECTNESS E14: the first failed append fences the log at once; the leader resigns in ZooKeeper,
    so that another one stands although this broker lives on."""
    topic = await own.create_topic([(1, 2, 3)])
    async with workload(topic) as load:
        await load.progress()
        epoch = (await topic.state()).leader_epoch
        await fill_disk_of(1, topic)
        state = await topic.led_above(epoch)
        assert state.leader in (2, 3)
        assert set(state.isr_ids) == {2, 3}, "a failed replica is not in sync"
        await load.progress()
        # Another life of the process, on a disk that has room again, catches up.
        await own.cluster.kill_broker(1)
        await own.cluster.start_broker(1)
        await topic.isr_is(1, 2, 3)
        await load.judge()


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_follower_that_cannot_append_leaves_the_isr_and_the_others_continue(own: Harness) -> None:
    """CORRECTNESS E14, H10: producers stall for KeepInSyncTime at most, then the two others commit."""
    topic = await own.create_topic([(1, 2, 3)])
    async with workload(topic) as load:
        await load.progress()
        await fill_disk_of(3, topic)
        await topic.isr_is(1, 2)
        await load.progress()
        await eventually(lambda: "a replica failed" in own.log_text(3), what="broker 3 says so")
        await own.cluster.kill_broker(3)
        await own.cluster.start_broker(3)
        await topic.isr_is(1, 2, 3)
        await load.judge()


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_leader_that_cannot_read_gives_up_before_the_next_write(own: Harness) -> None:
    """CORRECTNESS E14: its consumers read nothing until the next record made it resign, without a word."""
    topic = await own.create_topic([(1, 2, 3)])
    name = topic.partitions[0]
    async with Producer(own.cluster.bootstrap) as producer:
        for number in range(100):
            await producer.send_and_wait(name.topic, b"%d" % number, partition=name.partition)
    state = await topic.state()
    (segment,) = topic.folder(state.leader).glob("*.log")
    os.truncate(segment, 0)
    async with Consumer(own.cluster.bootstrap, offset_reset="earliest") as consumer:
        consumer.assign([name])
        async with asyncio.timeout(60):
            read = [(await consumer.getone()).value for _ in range(100)]
    assert read == [b"%d" % number for number in range(100)]
    after = await topic.led_above(state.leader_epoch)
    assert state.leader not in after.isr_ids, "a failed replica is not in sync"
    assert "a replica failed" in own.log_text(state.leader)
    own.usable = False  # the bytes are gone: its next life is marked, and fetches them anew


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_connections_that_take_every_descriptor_fence_no_replica(own: Harness) -> None:
    """CORRECTNESS E14: a new leader could not open its epoch file, and its replica was out of use until the
    process ended, though nothing had been written. Files have descriptors of their own."""
    topic = await own.create_topic([(1, 2)])  # no other broker can take over
    name, pid = topic.partitions[0], own.cluster.pid(2)
    host, _, port = own.cluster.address(2).rpartition(":")
    epoch = (await topic.state()).leader_epoch
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    most = len(os.listdir(f"/proc/{pid}/fd")) + 10
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, limits[1]))
    taken = [socket.create_connection((host, int(port)), 10) for _ in range(40)]
    try:
        await eventually(
            lambda: len(os.listdir(f"/proc/{pid}/fd")) >= most, what="connections took all descriptors"
        )
        await own.cluster.kill_broker(1)
        assert (await topic.led_above(epoch)).leader == 2
        await topic.isr_is(2)
    finally:
        for each in taken:
            each.close()
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    async with Producer(own.cluster.bootstrap) as producer:
        await producer.send_and_wait(name.topic, b"x", partition=name.partition)
    assert "a replica failed" not in own.log_text(2)
    assert (await topic.state()).leader == 2
