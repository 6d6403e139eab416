"""Adding partitions, on a real ZooKeeper with brokers that the test registers (CORRECTNESS E7)."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import grpc
import pytest

from strandline.adapters.zookeeper import znodes
from strandline.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidTopic,
    UnknownTopicOrPartition,
)
from strandline.ids import TopicPartition
from strandline.ports import Coordination
from strandline.rpc import admin_pb2
from strandline.vocabulary.admin import AlterTopic, NewTopic, PartitionReassignment, Reassign
from strandline.vocabulary.state_changes import Command
from tests.conftest import SessionFactory
from tests.controller.support.running import Activate, ControllerProcess, Running, process
from tests.controller.support.znodes_seen import (
    assignments,
    check_whole,
    is_gone,
    register,
    requests,
    topic_node,
)
from tests.waiting import eventually

LARGE, LASTING = 30, 600
"""Partitions of a topic that does not fit into one multi, and of one that takes long to write."""

STEPS = [
    ("controller.grow.before", 5, 2),
    ("controller.grow.written", 5, 5),
    ("controller.grow.before", LARGE, 2),
    ("controller.grow.marked", LARGE, 2),
    ("controller.grow.part", LARGE, 2),
    ("controller.grow.part:2", LARGE, 2),
    ("controller.grow.written", LARGE, LARGE),
]
"""Where the controller dies, how many partitions are asked for, and how many there are then."""


async def create(controller: Running, *new: NewTopic) -> None:
    outcomes = await controller.admin.create_topics(new)
    assert [outcome.error for outcome in outcomes] == [None] * len(new)


async def grow(controller: Running, partitions: int, *assigned: tuple[int, ...], name: str = "t") -> None:
    await controller.admin.alter_topic(AlterTopic(name, partitions=partitions, assignments=assigned))


async def partitions_there(session: Coordination, name: str) -> list[int]:
    return sorted(int(each) for each in await session.children(znodes.topic(name)))


@pytest.mark.parametrize("partitions", [7, LARGE])
async def test_new_partitions_appear_with_all_their_znodes(active: Activate, partitions: int) -> None:
    """The count is written last, so a reader that sees a partition finds all of it."""
    async with active([1, 2, 3]) as (session, controller, epochs):
        await create(controller, NewTopic("t", 2, 2, {"retention.ms": "7"}))
        before = await assignments(session, "t")
        await grow(controller, partitions)
        node = await topic_node(session, "t")
        assert node is not None
        assert (node.partitions, node.growing, node.config) == (partitions, 0, {"retention.ms": "7"})
        await check_whole(session, "t", epochs)
        placed = await assignments(session, "t")
        assert placed[:2] == before
        assert {len(assigned) for assigned in placed} == {2}
        leaders = [assigned[0] for assigned in placed]
        counts = [leaders.count(broker) for broker in (1, 2, 3)]
        assert max(counts) - min(counts) <= 1


async def test_a_client_that_hangs_up_leaves_a_whole_topic(active: Activate) -> None:
    async with active([1]) as (session, controller, epochs):
        await create(controller, NewTopic("t", 1, 1))

        async def begun() -> bool:
            node = await topic_node(session, "t")
            return node is not None and node.growing == LASTING

        async def finished() -> bool:
            node = await topic_node(session, "t")
            return node is not None and node.partitions == LASTING

        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(controller.activity.carry_out(partial(grow, controller, LASTING)))
            await eventually(begun)
            call.cancel()
        await eventually(finished)
        await check_whole(session, "t", epochs)


async def test_the_replicas_may_be_named_and_those_that_are_wrong_change_nothing(active: Activate) -> None:
    async with active([1, 2, 3]) as (session, controller, _):
        await create(controller, NewTopic("t", 0, assignments=((1, 2),)))
        await grow(controller, 3, (2, 3), (3, 1))
        assert await assignments(session, "t") == [(1, 2), (2, 3), (3, 1)]
        with pytest.raises(InvalidReplicaAssignment, match="equally many"):
            await grow(controller, 4, (1,))
        with pytest.raises(InvalidReplicaAssignment, match="how many"):
            await controller.admin.alter_topic(AlterTopic("t", {"retention.ms": "1"}, assignments=((1, 2),)))
        with pytest.raises(InvalidPartitions, match="cannot be taken away"):
            await controller.admin.alter_topic(AlterTopic("t", {"retention.ms": "1"}, partitions=1))
        with pytest.raises(UnknownTopicOrPartition):
            await grow(controller, 4, name="never")
        node = await topic_node(session, "t")
        assert node is not None
        assert (node.partitions, node.config) == (3, {})


async def test_the_systems_own_topics_keep_their_size(active: Activate) -> None:
    """Which partition a group's offsets are in hangs on how many there are."""
    async with active([1]) as (_, controller, _):
        await controller.admin.create_topics([NewTopic("__consumer_offsets", 1, 1)], internal=True)
        with pytest.raises(InvalidTopic):
            await grow(controller, 2, name="__consumer_offsets")


async def test_new_partitions_have_as_many_replicas_as_the_others_will_have(active: Activate) -> None:
    """While the first partition's replicas move, where they go counts."""
    async with active([1, 2, 3]) as (session, controller, _):
        await create(controller, NewTopic("t", 0, assignments=((1,),)))
        await controller.admin.reassign(Reassign([PartitionReassignment(TopicPartition("t", 0), (2, 3))]))
        await grow(controller, 2)
        assert [len(assigned) for assigned in await assignments(session, "t")] == [3, 2]


async def test_config_and_size_change_together_and_others_changes_stay(active: Activate) -> None:
    """CORRECTNESS I3: a concurrent change makes the compare-and-set fail."""
    async with active([1]) as (session, controller, epochs):
        await create(controller, NewTopic("t", 1, 1))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(
                controller.admin.alter_topic(AlterTopic("t", {"flush.ms": "4"}, partitions=LASTING))
            )
            for number in range(6):
                tasks.create_task(
                    controller.admin.alter_topic(AlterTopic("t", {"retention.ms": str(number)}))
                )
        node = await topic_node(session, "t")
        assert node is not None
        assert (node.partitions, node.growing) == (LASTING, 0)
        assert node.config.keys() == {"flush.ms", "retention.ms"}
        assert [len(assigned) for assigned in await assignments(session, "t")] == [1] * LASTING
        assert epochs


async def test_several_additions_at_once_end_with_the_largest(active: Activate) -> None:
    async with active([1, 2]) as (session, controller, epochs):
        await create(controller, NewTopic("t", 1, 1))
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(_grown_or_too_late(controller, wanted)) for wanted in (5, 9, 3, 9)]
        assert asked[1].result()
        assert asked[3].result()
        assert await partitions_there(session, "t") == list(range(9))
        await check_whole(session, "t", epochs)


async def _grown_or_too_late(controller: Running, partitions: int) -> bool:
    try:
        await grow(controller, partitions)
    except InvalidPartitions:
        return False
    return True


async def test_a_deletion_under_an_addition_leaves_nothing(active: Activate) -> None:
    async with active([1]) as (session, controller, _):
        await create(controller, NewTopic("t", 1, 1))

        async def begun() -> bool:
            node = await topic_node(session, "t")
            return node is not None and node.growing > 0

        async with asyncio.TaskGroup() as tasks:
            growing = tasks.create_task(_grown_or_gone(controller))
            await eventually(begun)
            tasks.create_task(controller.admin.delete_topics(["t"]))
        assert growing.done()
        await eventually(lambda: is_gone(session, "t"))
        await create(controller, NewTopic("t", 2, 1))
        assert await partitions_there(session, "t") == [0, 1]


async def _grown_or_gone(controller: Running) -> None:
    try:
        await grow(controller, 2 * LASTING)
    except UnknownTopicOrPartition:
        return


async def crash(one: ControllerProcess, partitions: int) -> None:
    with pytest.raises(grpc.aio.AioRpcError):
        await one.grow("t", partitions)
    await eventually(lambda: one.dead)


@pytest.mark.parametrize(("step", "wanted", "there"), STEPS)
async def test_a_controller_killed_while_it_adds_partitions_leaves_all_of_them_or_none(
    zookeeper: str, open_session: SessionFactory, tmp_path: Path, step: str, wanted: int, there: int
) -> None:
    """CORRECTNESS E7: the next controller removes unpublished partitions, and asks the brokers to delete
    their replicas."""
    session = await open_session()
    epochs = await register(session, [1, 2])
    async with process(1, zookeeper, tmp_path, crash_points=step) as one:
        await one.create(admin_pb2.NewTopic(name="t", partitions=2, replication_factor=2))
        await crash(one, wanted)
    node = await topic_node(session, "t")
    assert node is not None
    assert node.partitions == there, "partitions are visible before they are all there"
    async with process(2, zookeeper, tmp_path) as two:
        await eventually(two.is_active)

        async def settled() -> bool:
            found = await topic_node(session, "t")
            return found is not None and not found.growing

        await eventually(settled)
        assert await partitions_there(session, "t") == list(range(there))
        for broker in (1, 2):
            last = {change.key.partition: change.command for change in await requests(session, broker)}
            unseen = {command for number, command in last.items() if number >= there}
            assert unseen <= {Command.DELETE_REPLICA}
        response = await two.grow("t", wanted)
        assert not response.error.code
        assert await partitions_there(session, "t") == list(range(wanted))
        placed = await assignments(session, "t")
        assert {len(assigned) for assigned in placed} == {2}
        assert epochs


@pytest.mark.parametrize("step", ["controller.grow.undo_part", "controller.grow.undo_part:2"])
async def test_a_controller_killed_while_it_takes_back_is_followed_by_one_that_continues(
    zookeeper: str, open_session: SessionFactory, tmp_path: Path, step: str
) -> None:
    session = await open_session()
    await register(session, [1, 2])
    async with process(1, zookeeper, tmp_path, crash_points="controller.grow.part:3") as one:
        await one.create(admin_pb2.NewTopic(name="t", partitions=2, replication_factor=2))
        await crash(one, 3 * LARGE)
    async with process(2, zookeeper, tmp_path, crash_points=step) as two:
        await eventually(lambda: two.dead, deadline_s=30)
    async with process(3, zookeeper, tmp_path) as three:
        await eventually(three.is_active)

        async def taken_back() -> bool:
            return await partitions_there(session, "t") == [0, 1]

        await eventually(taken_back)
        assert not (await three.grow("t", 3)).error.code
