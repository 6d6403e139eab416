"""Preferred leaders on demand, on a real ZooKeeper; the test answers in the place of leaders (Kafka's
design V3)."""

from __future__ import annotations

import asyncio

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes, queue_znodes
from strandline.adapters.zookeeper.layout.queue_znodes import ElectionNotice
from strandline.config.limits import PARTITIONS_PER_REQUEST_MAX
from strandline.errors import (
    ElectionNotNeeded,
    InvalidRequest,
    NotController,
    PreferredLeaderNotAvailable,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from strandline.ports import Coordination
from strandline.vocabulary.admin import NewTopic, PartitionResult
from strandline.vocabulary.metadata import IsrMember, PartitionState
from tests.controller.support.running import Activate, Running, running
from tests.waiting import eventually

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


async def led(session: Coordination, name: TopicPartition, leader: int, *isr: tuple[int, int]) -> None:
    """A partition with a leader in epoch 5, and these members in sync in these lives."""
    members = tuple(IsrMember(BrokerId(b), BrokerEpoch(e)) for b, e in isr)
    state = PartitionState(BrokerId(leader), LeaderEpoch(5), members)
    await session.set(znodes.isr(*name), isr_znodes.dump_isr(state))


async def noticed(session: Coordination, broker: int) -> list[ElectionNotice]:
    """The notices in a broker's election queue."""
    queue = znodes.elections(broker)
    found = []
    for entry in sorted(await session.children(queue)):
        found += queue_znodes.load_notices((await session.get(f"{queue}/{entry}")).data)
    return found


async def created(controller: Running, *assigned: tuple[int, ...]) -> None:
    (outcome,) = await controller.admin.create_topics([NewTopic("t", 0, assignments=assigned)])
    assert outcome.error is None


def errors(outcomes: list[PartitionResult]) -> list[type[BaseException] | None]:
    return [None if outcome.error is None else type(outcome.error) for outcome in outcomes]


async def test_leaders_are_asked_in_their_own_queues_and_success_means_that_it_happened(
    active: Activate,
) -> None:
    """Kafka's design V3, checkLoadBalancing on demand; a notice about leadership waits behind no request
    (Q3)."""
    async with active([1, 2, 3]) as (session, controller, epochs):
        both = [(1, epochs[1]), (2, epochs[2])]
        await created(controller, (1, 2), (1, 2), (1, 3))
        for name in (T0, T1):
            await led(session, name, 2, *both)
        await led(session, T2, 3, (3, epochs[3]))
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(controller.admin.elect_preferred([T1, T0, T2]))

            async def asks() -> list[ElectionNotice]:
                return await noticed(session, 2)

            notices = await eventually(asks)
            assert not asked.done()
            assert [(n.key.partition, n.leader_epoch, n.give_to) for n in notices] == [(1, 5, 1), (0, 5, 1)]
            assert {n.reason for n in notices} == {"preferred leader, asked for"}
            assert len(await session.children(znodes.elections(2))) == 1
            for name in (T0, T1):
                await led(session, name, 1, *both)
        assert errors(asked.result()) == [None, None, PreferredLeaderNotAvailable]
        assert [outcome.name for outcome in asked.result()] == [T1, T0, T2]
        assert await noticed(session, 3) == []


async def test_without_names_only_partitions_with_another_leader_are_reported(active: Activate) -> None:
    async with active([1, 2]) as (session, controller, epochs):
        both = [(1, epochs[1]), (2, epochs[2])]
        await created(controller, (1, 2), (2, 1), (1, 2))
        await led(session, T0, 1, *both)
        await led(session, T1, 1, *both)
        await led(session, T2, 1, *both)
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(controller.admin.elect_preferred([]))
            await eventually(lambda: noticed(session, 1))
            await led(session, T1, 2, *both)
        assert [(o.name, o.error) for o in asked.result()] == [(T1, None)]
        assert await controller.admin.elect_preferred([]) == []


async def test_each_partition_that_cannot_or_need_not_change_is_reported_at_once(active: Activate) -> None:
    async with active([1, 2]) as (session, controller, epochs):
        await created(controller, (1, 2), (2, 1))
        await led(session, T0, 1, (1, epochs[1]))
        await led(session, T1, 1, (1, epochs[1]), (2, epochs[2] - 1))
        names = [T0, T1, T2, TopicPartition("never", 0), TopicPartition("t", 9), TopicPartition("t", 9)]
        outcomes = await controller.admin.elect_preferred(names)
        assert errors(outcomes) == [
            ElectionNotNeeded,
            PreferredLeaderNotAvailable,
            UnknownTopicOrPartition,
            UnknownTopicOrPartition,
            InvalidRequest,
            InvalidRequest,
        ]
        assert await noticed(session, 1) == []


@pytest.mark.slow
async def test_a_leader_that_does_not_hand_over_in_time_is_an_error_of_that_partition(
    active: Activate,
) -> None:
    """It may have had to: a drain that does not finish is no reason to fail producers."""
    async with active([1, 2, 3]) as (session, controller, epochs):
        both = [(1, epochs[1]), (2, epochs[2]), (3, epochs[3])]
        await created(controller, (1, 2, 3), (1, 2, 3))
        await led(session, T0, 2, *both)
        await led(session, T1, 2, *both)
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(controller.admin.elect_preferred([T0, T1]))
            await eventually(lambda: noticed(session, 2))
            await led(session, T1, 3, *both)
        assert errors(asked.result()) == [RequestTimedOut, RequestTimedOut]
        said = [outcome.error.message for outcome in asked.result() if outcome.error is not None]
        assert "t-0: broker 2 leads" in said[0]
        assert "t-1: broker 3 leads" in said[1]


async def test_a_partition_without_a_live_leader_is_waited_for_without_a_request(active: Activate) -> None:
    """The replicas in sync elect the first of them on their own."""
    async with active([1, 2]) as (session, controller, epochs):
        both = [(1, epochs[1]), (2, epochs[2])]
        await created(controller, (1, 2))
        await led(session, T0, -1, *both)
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(controller.admin.elect_preferred([T0]))
            await led(session, T0, 1, *both)
        assert errors(asked.result()) in ([None], [ElectionNotNeeded])
        assert await noticed(session, 1) == await noticed(session, 2) == []


async def test_too_many_at_once_and_a_controller_that_is_not_active_are_refused(zookeeper: str) -> None:
    async with running(zookeeper) as one:
        await one.wait_active()
        many = [TopicPartition("t", number) for number in range(PARTITIONS_PER_REQUEST_MAX + 1)]
        with pytest.raises(InvalidRequest, match=str(PARTITIONS_PER_REQUEST_MAX)):
            await one.admin.elect_preferred(many)
        async with running(zookeeper, 2) as two:
            await two.wait_knows(1)
            with pytest.raises(NotController):
                await two.admin.elect_preferred([])
