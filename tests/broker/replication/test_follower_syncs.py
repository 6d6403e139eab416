"""The follower's end of replication: it reports no position before it is synced (CORRECTNESS E3)."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ParamSpec, TypeVar

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.membership.pulse import ANSWER_S
from strandline.broker.replication.follower_end import SYNCS_IN_FLIGHT_MAX
from strandline.ids import BrokerId, LeaderEpoch, PartitionId
from strandline.vocabulary.replication import Push
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.replicas import CLOCK, HOST, KEY, batch, following, open_replica, write
from tests.waiting import eventually

P = ParamSpec("P")
T = TypeVar("T")


async def test_a_position_is_reported_only_once_it_is_synced_on_a_new_stream_too() -> None:
    """CORRECTNESS E3: with `flush.messages=1` an acknowledged record survives the loss of power on
    all machines at once; the position that a subscription begins with counts like any other."""
    files = MemoryFiles()
    replica = open_replica(TopicConfig(flush_messages=1), files=files)
    write(replica, 1, "a")
    assert replica.log.unflushed_records == 1
    async with following(replica, 1) as followed:
        (asked,) = (await followed.heard()).subscribe
        assert (asked.fetch_offset, replica.log.unflushed_records) == (1, 0)
        push = Push(asked.subscription_id, records=batch("b", base_offset=1, leader_epoch=1))
        followed.stream.push(push)
        while not (said := await followed.heard()).progress:
            pass
        assert said.progress == ((asked.subscription_id, 2),)
        assert replica.log.unflushed_records == 0


class HeldThreads:
    """Functions that wait for a gate before they run; the most that waited at once."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.waiting = self.most = 0

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            await self.gate.wait()
        finally:
            self.waiting -= 1
        return function(*args, **kwargs)


async def test_the_logs_of_a_message_are_synced_together() -> None:
    """CORRECTNESS E3: one after the other, a burst to many partitions would make a healthy follower late. The
    message is acknowledged after all of them; one that fails costs no other."""
    bad, threads = MemoryFiles(), HeldThreads()
    replicas = [open_replica(TopicConfig(flush_messages=1), files=bad)]
    replicas += [open_replica(TopicConfig(flush_messages=1)) for _ in range(SYNCS_IN_FLIGHT_MAX + 3)]
    for number, replica in enumerate(replicas):
        replica.key = KEY._replace(partition=PartitionId(number))
        replica.learn_leader(BrokerId(1), LeaderEpoch(1))

    def broken(operation: str, path: Path) -> int | None:
        if operation == "sync":
            raise OSError(errno.EIO, "as the test wants it", str(path))
        return None

    async with following(replicas[0], 1, host=replace(HOST, threads=threads)) as followed:
        for replica in replicas[1:]:
            followed.link.follow(replica)
        asked: list[int] = []
        while len(asked) < len(replicas):
            asked += [each.subscription_id for each in (await followed.heard()).subscribe]
        bad.fault = broken
        followed.stream.push(*(Push(each, records=batch("a", leader_epoch=1)) for each in asked))
        await eventually(lambda: threads.waiting == SYNCS_IN_FLIGHT_MAX)
        threads.gate.set()
        reported: list[tuple[int, int]] = []
        acknowledged = 0
        while not acknowledged:
            said = await followed.heard()
            acknowledged = said.acknowledged
            reported += said.progress
        assert sorted(reported) == [(each, 1) for each in asked[1:]]
        assert [replica.log.unflushed_records for replica in replicas] == [1] + [0] * (len(replicas) - 1)
        assert threads.most == SYNCS_IN_FLIGHT_MAX


async def test_a_stream_that_breaks_while_logs_are_synced_is_opened_again() -> None:
    """CORRECTNESS E3: what was not synced is not reported on the next one either."""
    replica, threads = open_replica(TopicConfig(flush_messages=1)), HeldThreads()
    async with following(replica, 1, host=replace(HOST, threads=threads)) as followed:
        (asked,) = (await followed.heard()).subscribe
        followed.stream.push(Push(asked.subscription_id, records=batch("a", leader_epoch=1)))
        await eventually(lambda: threads.waiting == 1)
        followed.stream.break_off("reset")
        followed.link.beat(CLOCK.monotonic() + 2 * ANSWER_S)  # which finds that the stream is broken
        await eventually(lambda: len(followed.streams) == 2)
        (again,) = (await followed.heard()).subscribe
        assert (again.fetch_offset, replica.log.unflushed_records, threads.waiting) == (1, 0, 0)
