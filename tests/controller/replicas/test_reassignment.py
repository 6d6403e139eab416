"""How a reassignment begins, on a real ZooKeeper with brokers that the test registers (CORRECTNESS E16)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.config.limits import MULTI_BYTES_MAX, PARTITIONS_PER_REQUEST_MAX
from strandline.config.services.controller import ControllerSettings
from strandline.errors import (
    InvalidReplicaAssignment,
    InvalidRequest,
    NoReassignmentInProgress,
    NotController,
    UnknownTopicOrPartition,
)
from strandline.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from strandline.ports import Coordination
from strandline.rpc import admin_pb2
from strandline.vocabulary.admin import (
    AlterTopic,
    NewTopic,
    OngoingReassignment,
    PartitionReassignment,
    PartitionResult,
    Reassign,
)
from strandline.vocabulary.metadata import REPLACED_MAX, PartitionState
from strandline.vocabulary.state_changes import Command, RequestState, StateChange
from tests.conftest import SessionFactory
from tests.controller.support.running import MULTI_BYTES, Activate, Running, process, running
from tests.controller.support.znodes_seen import (
    assignments,
    check_replicas_deleted,
    finish_reassignment,
    is_gone,
    reassignment,
    register,
    requests,
    topic_node,
)
from tests.waiting import eventually

MANY = 30
"""Partitions whose reassignments do not fit into one multi."""


def errors(outcomes: list[PartitionResult]) -> list[type[BaseException] | None]:
    return [None if outcome.error is None else type(outcome.error) for outcome in outcomes]


def move(number: int, *replicas: int, topic: str = "t") -> PartitionReassignment:
    return PartitionReassignment(TopicPartition(topic, number), replicas)


async def topic_on(controller: Running, *assigned: tuple[int, ...], name: str = "t") -> str:
    (outcome,) = await controller.admin.create_topics([NewTopic(name, 0, assignments=assigned)])
    assert outcome.error is None
    return outcome.topic_id or ""


async def begun(controller: Running, *moves: PartitionReassignment) -> None:
    assert errors(await controller.admin.reassign(Reassign(moves))) == [None] * len(moves)


async def requests_to(session: Coordination, broker: int, number: int) -> list[StateChange]:
    """The requests about a partition in a broker's queue."""
    return [change for change in await requests(session, broker) if change.key.partition == number]


def replicas_counted(controller: Running) -> dict[int, int]:
    """How many each broker has, as the active controller places by."""
    active = controller.activity.active
    assert active is not None
    return {broker: count for broker, count in active.picture.replicas.items() if count}


async def nothing_under_way(session: Coordination) -> bool:
    return await session.children(znodes.REASSIGNED) == []


async def test_ar_grows_and_every_replica_gets_a_request_in_one_write(active: Activate) -> None:
    """Kafka's design V3, partitions_reassigned; the leader is woken in its epoch and reads what stands
    (E6)."""
    async with active([1, 2, 3]) as (session, controller, _):
        topic_id = await topic_on(controller, (1, 2), (2, 1))
        led = PartitionState(BrokerId(2), LeaderEpoch(41), ())
        await session.set(znodes.isr("t", 1), isr_znodes.dump_isr(led))
        outcomes = await controller.admin.reassign(Reassign([move(1, 3, 2)], throttle_bytes_per_s=1_000))
        assert errors(outcomes) == [None]
        wanted = await reassignment(session, "t", 1)
        assert wanted is not None
        assert (wanted.replicas, wanted.original, wanted.topic_id) == ((3, 2), (2, 1), topic_id)
        assert wanted.throttle_bytes_per_s == 1_000
        assert await assignments(session, "t") == [(1, 2), (2, 1, 3)]
        for broker in (1, 2, 3):
            last = (await requests_to(session, broker, 1))[-1]
            assert (last.command, last.leader_epoch, last.requester) == (Command.START_REPLICA, 41, -1)
            assert last.reason == "replicas reassigned"
        (found,) = await controller.admin.list_reassignments()
        name = TopicPartition("t", 1)
        assert wanted.deadline is not None
        at_ms = wanted.deadline.at_ms
        assert at_ms - wanted.at_ms == ControllerSettings().reassignment_timeout_ms
        assert found == OngoingReassignment(
            name, (2, 1), (3, 2), (), 1_000, reverting=False, deadline_at_ms=at_ms
        )


async def test_each_partition_has_an_outcome_of_its_own(active: Activate) -> None:
    async with active([1, 2, 3]) as (session, controller, _):
        await topic_on(controller, (1, 2), (2, 1), (1, 2))
        outcomes = await controller.admin.reassign(
            Reassign(
                [move(0, 3, 1), move(1, 9), move(7, 1), move(0, 1, topic="never"), move(2), move(1, 2, 1)]
            )
        )
        assert errors(outcomes) == [
            None,
            InvalidRequest,
            UnknownTopicOrPartition,
            UnknownTopicOrPartition,
            NoReassignmentInProgress,
            InvalidRequest,
        ]
        assert await assignments(session, "t") == [(1, 2, 3), (2, 1), (1, 2)]
        (outcome,) = await controller.admin.reassign(Reassign([move(1, 9)]))
        assert isinstance(outcome.error, InvalidReplicaAssignment)


async def test_a_reassignment_without_a_change_writes_nothing(active: Activate) -> None:
    async with active([1, 2, 3]) as (session, controller, _):
        await topic_on(controller, (1, 2))
        queued = await requests(session, 1)
        await begun(controller, move(0, 1, 2))
        outcomes = await controller.admin.reassign(Reassign([move(0, 3, 2)], validate_only=True))
        assert errors(outcomes) == [None]
        assert await requests(session, 1) == queued
        assert await nothing_under_way(session)


@pytest.mark.parametrize(
    ("partitions", "multi_bytes_max"),
    [(MANY, MULTI_BYTES), pytest.param(50 * MANY, MULTI_BYTES_MAX, marks=pytest.mark.slow)],
)
async def test_many_partitions_are_reassigned_at_once_each_wholly(
    active: Activate, partitions: int, multi_bytes_max: int
) -> None:
    async with active([1, 2, 3], multi_bytes_max=multi_bytes_max) as (session, controller, _):
        await topic_on(controller, *[(1, 2)] * partitions)
        await begun(controller, *(move(number, 3, 2) for number in range(partitions)))
        assert await assignments(session, "t") == [(1, 2, 3)] * partitions
        assert len(await session.children(znodes.reassigned_topic("t"))) == partitions
        starts = [change.key.partition for change in await requests(session, 3)]
        assert sorted(starts) == list(range(partitions))
        assert len(await session.children(znodes.state_queue(3))) < 10


async def test_another_target_keeps_added_replicas_until_the_end_and_the_way_back(active: Activate) -> None:
    """A replica of an earlier target may lead by now, so the controller removes none from AR."""
    async with active([1, 2, 3, 4]) as (session, controller, _):
        await topic_on(controller, (1, 2))
        await begun(controller, move(0, 3))
        first = await reassignment(session, "t", 0)
        await begun(controller, move(0, 4))
        second = await reassignment(session, "t", 0)
        assert first is not None
        assert second is not None
        assert (second.original, second.replicas) == ((1, 2), (4,))
        (replaced,) = second.replaced
        assert (replaced.request_id, replaced.replicas) == (first.request_id, (3,))
        assert await assignments(session, "t") == [(1, 2, 3, 4)]
        await begun(controller, move(0))
        back = await reassignment(session, "t", 0)
        assert back is not None
        assert (back.reverting, back.target) == (True, (1, 2))
        assert await assignments(session, "t") == [(1, 2, 3, 4)]
        assert (await requests_to(session, 1, 0))[-1].reason == "reassignment taken back"


async def test_the_write_that_forgets_a_target_keeps_its_events(active: Activate) -> None:
    """CORRECTNESS Q5: the leader records the ends of the targets that the znode has, and no other."""
    async with active([1, 2, 3, 4]) as (session, controller, _):
        await topic_on(controller, (1, 2))
        await begun(controller, move(0, 3))
        first = await reassignment(session, "t", 0)
        assert first is not None
        for number in range(REPLACED_MAX + 1):
            assert await session.exists(znodes.UNRECORDED) is None or not await session.children(
                znodes.UNRECORDED
            )
            await begun(controller, move(0, 4 - number % 2))
        (name,) = await session.children(znodes.UNRECORDED)
        path = znodes.unrecorded(name)
        events = isr_znodes.load_unrecorded(path, (await session.get(path)).data)
        assert [(each.id, each.state) for each in events] == [
            (first.request_id, RequestState.REQUESTED),
            (first.request_id, RequestState.SUPERSEDED),
        ]


async def test_a_change_that_came_between_read_and_write_is_met_not_overwritten(active: Activate) -> None:
    """CORRECTNESS I3: many ask for the same partition at once; AR has what all of them added."""
    async with active([1, 2, 3, 4, 5]) as (session, controller, _):
        await topic_on(controller, (1, 2))
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(controller.admin.reassign(Reassign([move(0, b)]))) for b in (3, 4, 5)]
        assert [errors(task.result()) for task in asked] == [[None]] * 3
        (assigned,) = await assignments(session, "t")
        assert assigned[:2] == (1, 2)
        assert sorted(assigned) == [1, 2, 3, 4, 5]
        wanted = await reassignment(session, "t", 0)
        assert wanted is not None
        assert wanted.original == (1, 2)


async def test_fewer_replicas_than_the_bound_on_those_in_sync_are_possible(active: Activate) -> None:
    """CORRECTNESS I11: the number of replicas is in force then."""
    async with active([1, 2, 3]) as (session, controller, _):
        await topic_on(controller, (1, 2))
        await controller.admin.alter_topic(AlterTopic("t", {"min.insync.replicas": "2"}))
        await begun(controller, move(0, 3))
        assert await assignments(session, "t") == [(1, 2, 3)]


async def test_a_deleted_topic_takes_its_reassignments_along_and_all_replicas_get_requests(
    active: Activate,
) -> None:
    async with active([1, 2, 3]) as (session, controller, _):
        topic_id = await topic_on(controller, (1, 2), (2, 1), (1, 3))
        await begun(controller, move(0, 3), move(1, 1, 3))
        placed = await assignments(session, "t")
        (outcome,) = await controller.admin.delete_topics(["t"])
        assert outcome.error is None
        assert await is_gone(session, "t")
        assert await nothing_under_way(session)
        await check_replicas_deleted(session, topic_id, placed)
        assert await controller.admin.list_reassignments() == []


async def test_reassignments_and_a_deletion_at_once_leave_nothing(active: Activate) -> None:
    """Either may win; an added replica is deleted too, and no znode is left."""
    async with active([1, 2, 3]) as (session, controller, _):
        for attempt in range(5):
            topic_id = await topic_on(controller, *[(1, 2)] * 20)
            async with asyncio.TaskGroup() as tasks:
                moving = tasks.create_task(
                    controller.admin.reassign(Reassign([move(n, 3, 2) for n in range(20)]))
                )
                deleted = tasks.create_task(controller.admin.delete_topics(["t"]))
            assert deleted.result()[0].error is None, attempt
            assert set(errors(moving.result())) <= {None, UnknownTopicOrPartition}
            assert await is_gone(session, "t")
            assert await nothing_under_way(session)
            last = {
                (broker, change.key.partition): change.command
                for broker in (1, 2, 3)
                for change in await requests(session, broker)
                if change.key.topic_id == topic_id
            }
            assert set(last.values()) == {Command.DELETE_REPLICA}


async def test_a_topic_that_is_marked_for_deletion_is_not_reassigned(active: Activate) -> None:
    async with active([1, 2, 3], reconcile_ms=60_000) as (session, controller, _):
        topic_id = await topic_on(controller, (1, 2))
        await session.create(znodes.delete_topic("t"), znodes.dump_deletion(TopicId(topic_id)))
        (outcome,) = await controller.admin.reassign(Reassign([move(0, 3)]))
        assert isinstance(outcome.error, UnknownTopicOrPartition)
        assert "being deleted" in outcome.error.message


async def test_placement_counts_replicas_that_come_and_those_that_have_gone(active: Activate) -> None:
    """While replicas move both count; once the leader has ended it only those that stayed do."""
    async with active([1, 2, 3], reconcile_ms=50) as (session, controller, _):
        await topic_on(controller, *[(1,)] * 12)
        await begun(controller, *(move(number, 2) for number in range(12)))
        assert replicas_counted(controller) == {1: 12, 2: 12}
        for number in range(12):
            await finish_reassignment(session, "t", number)
        await eventually(lambda: replicas_counted(controller) == {2: 12}, what="the picture follows")


async def test_a_new_epoch_counts_replicas_that_are_being_added(
    zookeeper: str, open_session: SessionFactory
) -> None:
    """CORRECTNESS E13: the next controller begins with the state in ZooKeeper, and follows it from there."""
    session = await open_session()
    await register(session, [1, 2, 3])
    async with running(zookeeper) as controller:
        await controller.wait_active()
        await topic_on(controller, (1,))
        await begun(controller, move(0, 2))
    async with running(zookeeper, 2, reconcile_ms=50) as controller:
        await controller.wait_active()
        assert replicas_counted(controller) == {1: 1, 2: 1}
        await begun(controller, move(0, 3))
        await finish_reassignment(session, "t", 0)
        await eventually(lambda: replicas_counted(controller) == {3: 1}, what="the picture follows")


async def test_the_systems_own_topics_move_too(active: Activate) -> None:
    async with active([1, 2]) as (session, controller, _):
        new = NewTopic("__state_changes", 0, assignments=((1,),))
        await controller.admin.create_topics([new], internal=True)
        await begun(controller, move(0, 2, topic="__state_changes"))
        assert await assignments(session, "__state_changes") == [(1, 2)]


async def test_too_much_and_too_little_is_refused_as_a_whole(zookeeper: str) -> None:
    async with running(zookeeper) as controller:
        await controller.wait_active()
        with pytest.raises(InvalidRequest, match=str(PARTITIONS_PER_REQUEST_MAX)):
            await controller.admin.reassign(
                Reassign([move(n, 1) for n in range(PARTITIONS_PER_REQUEST_MAX + 1)])
            )
        with pytest.raises(InvalidRequest, match="throttle_bytes_per_s = -1"):
            await controller.admin.reassign(Reassign([move(0, 1)], throttle_bytes_per_s=-1))


async def test_a_standby_controller_reassigns_nothing(zookeeper: str) -> None:
    async with running(zookeeper, 1) as one:
        await one.wait_active()
        async with running(zookeeper, 2) as two:
            await two.wait_knows(1)
            (outcome,) = await two.admin.reassign(Reassign([move(0, 1)]))
            assert isinstance(outcome.error, NotController)


@pytest.mark.parametrize(
    ("step", "partitions", "some"),
    [
        ("controller.reassign.before", 3, False),
        ("controller.reassign.written", 3, True),
        ("controller.reassign.written", MANY, True),
    ],
)
async def test_a_controller_killed_while_it_reassigns_leaves_each_partition_wholly_begun_or_not(
    zookeeper: str, open_session: SessionFactory, tmp_path: Path, step: str, partitions: int, some: bool
) -> None:
    """CORRECTNESS E7: AR, the reassignment and the requests are one write; asking again is enough."""
    session = await open_session()
    await register(session, [1, 2, 3])
    wanted = [
        admin_pb2.PartitionReassignment(topic="t", partition=number, replicas=[3, 2])
        for number in range(partitions)
    ]
    async with process(1, zookeeper, tmp_path, crash_points=step) as one:
        new = admin_pb2.NewTopic(
            name="t", assignments=[admin_pb2.ReplicaAssignment(replicas=[1, 2])] * partitions
        )
        (created,) = await one.create(new)
        assert not created.error.code
        with pytest.raises(grpc.aio.AioRpcError):
            await one.reassign(*wanted)
        await eventually(lambda: one.dead)
    placed = await assignments(session, "t")
    started = {change.key.partition for change in await requests(session, 3)}
    for number, assigned in enumerate(placed):
        standing = await reassignment(session, "t", number)
        assert (standing is not None) == (assigned == (1, 2, 3)) == (number in started)
    assert bool(started) == some
    async with process(2, zookeeper, tmp_path) as two:
        await eventually(two.is_active)
        results = await two.reassign(*wanted)
        assert {result.error.code for result in results} == {0}
        assert await assignments(session, "t") == [(1, 2, 3)] * partitions
        assert len(await session.children(znodes.reassigned_topic("t"))) == partitions
        assert (await topic_node(session, "t")) is not None
