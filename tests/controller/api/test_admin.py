"""The admin service on a real ZooKeeper, with brokers that the test registers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from functools import partial

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.config.limits import MULTI_BYTES_MAX, PARTITIONS_PER_TOPIC_MAX, TOPICS_PER_REQUEST_MAX
from strandline.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    NotController,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from strandline.ids import BrokerId, LeaderEpoch, TopicPartition
from strandline.local.zookeeper_process import four_letter_word
from strandline.ports import Coordination
from strandline.vocabulary.admin import AlterTopic, NewTopic, PartitionReassignment, Reassign, TopicResult
from strandline.vocabulary.metadata import PartitionState
from strandline.vocabulary.state_changes import Command
from tests.conftest import SessionFactory
from tests.controller.support.running import MULTI_BYTES, Activate, Running, running
from tests.controller.support.znodes_seen import (
    assignments,
    check_replicas_deleted,
    check_whole,
    is_gone,
    register,
    requests,
    topic_node,
)
from tests.waiting import eventually

LARGE, LASTING = 30, 600
"""Partitions of a topic that does not fit into one multi, and of one that takes long to write."""


def errors(outcomes: list[TopicResult]) -> list[type[BaseException] | None]:
    return [None if outcome.error is None else type(outcome.error) for outcome in outcomes]


async def create(controller: Running, *topics: NewTopic) -> list[TopicResult]:
    outcomes = await controller.admin.create_topics(topics)
    assert errors(outcomes) == [None] * len(topics), outcomes
    return outcomes


async def topics(session: Coordination) -> list[str]:
    return sorted(await session.children(znodes.TOPICS))


async def test_a_created_topic_is_complete_and_its_replicas_get_requests(active: Activate) -> None:
    """The ISR of a new partition is its live replicas in their present lives (CORRECTNESS E4, I6)."""
    async with active([1, 2, 3]) as (session, controller, epochs):
        (outcome,) = await create(controller, NewTopic("t", 3, 2, {"retention.ms": "1000"}))
        node = await topic_node(session, "t")
        assert node is not None and node.topic_id == outcome.topic_id
        assert (node.partitions, node.config) == (3, {"retention.ms": "1000"})
        await check_whole(session, "t", epochs)
        assert sorted(a[0] for a in await assignments(session, "t")) == [1, 2, 3]


async def test_each_broker_gets_one_znode_of_requests_however_many_partitions(active: Activate) -> None:
    async with active([1, 2], multi_bytes_max=MULTI_BYTES_MAX) as (session, controller, _):
        await create(controller, NewTopic("t", 50, 2))
        for broker in (1, 2):
            assert len(await session.children(znodes.state_queue(broker))) == 1
            assert len(await requests(session, broker)) == 50


async def test_one_bad_topic_does_not_spoil_the_others(active: Activate) -> None:
    async with active([1, 2]) as (session, controller, _):
        outcomes = await controller.admin.create_topics(
            [
                NewTopic("good", 1, 1),
                NewTopic("bad/name", 1, 1),
                NewTopic("wide", 1, 3),
                NewTopic("strict", 1, 2, {"min.insync.replicas": "0"}),
                NewTopic("twice", 1, 1),
                NewTopic("twice", 2, 1),
                NewTopic("also-good", 1, 2),
            ]
        )
        assert errors(outcomes) == [
            None,
            InvalidTopic,
            InvalidReplicationFactor,
            InvalidConfig,
            InvalidRequest,
            InvalidRequest,
            None,
        ]
        assert await topics(session) == ["also-good", "good"]


async def test_a_topic_is_created_once_however_many_ask(active: Activate) -> None:
    async with active([1]) as (session, controller, _):
        async with asyncio.TaskGroup() as tasks:
            asked = [
                tasks.create_task(controller.admin.create_topics([NewTopic("t", 1, 1)])) for _ in range(9)
            ]
        found = [errors(task.result())[0] for task in asked]
        assert found.count(None) == 1
        assert found.count(TopicAlreadyExists) == 8
        assert len(await requests(session, 1)) == 1


async def test_a_topic_that_only_zookeeper_knows_of_is_not_overwritten(active: Activate) -> None:
    async with active([1]) as (session, controller, _):
        await session.create(znodes.topic("t"), b"somebody's")
        outcomes = await controller.admin.create_topics([NewTopic("t", 1, 1)])
        assert errors(outcomes) == [TopicAlreadyExists]
        assert (await session.get(znodes.topic("t"))).data == b"somebody's"


async def test_validate_only_refuses_the_same_and_writes_nothing(active: Activate) -> None:
    async with active([1]) as (session, controller, _):
        await create(controller, NewTopic("there", 1, 1))
        wanted = [NewTopic("t", 1, 1), NewTopic("there", 1, 1), NewTopic("wide", 1, 2)]
        outcomes = await controller.admin.create_topics(wanted, validate_only=True)
        assert errors(outcomes) == [None, TopicAlreadyExists, InvalidReplicationFactor]
        known = await topic_node(session, wanted[1].name)
        assert known is not None
        assert [outcome.topic_id for outcome in outcomes] == ["", known.topic_id, ""]
        assert await topics(session) == ["there"]
        await create(controller, NewTopic("t", 1, 1))


async def test_the_systems_own_topics_need_the_systems_own_request(active: Activate) -> None:
    async with active([1]) as (session, controller, _):
        wanted = [NewTopic("__state_changes", 1, 1)]
        assert errors(await controller.admin.create_topics(wanted)) == [InvalidTopic]
        assert errors(await controller.admin.create_topics(wanted, internal=True)) == [None]
        assert errors(await controller.admin.delete_topics(["__state_changes"])) == [InvalidTopic]
        assert await topics(session) == ["__state_changes"]


async def test_replicas_on_a_dead_broker_are_assigned_and_queued_but_not_in_sync(
    zookeeper: str, open_session: SessionFactory
) -> None:
    """Requests are queued for dead brokers too."""
    session = await open_session()
    epochs = await register(session, [1])
    await session.ensure_path(znodes.state_queue(2))
    async with running(zookeeper) as controller:
        await controller.wait_active()
        await create(controller, NewTopic("t", 0, assignments=((2, 1),)))
        await check_whole(session, "t", epochs)
        assert [change.topic for change in await requests(session, 2)] == ["t"]


async def test_many_topics_of_one_request_are_spread_evenly(active: Activate) -> None:
    async with active([1, 2, 3]) as (session, controller, _):
        await create(controller, *(NewTopic(f"t{i}", 1, 2) for i in range(30)))
        leaders = [(await assignments(session, f"t{i}"))[0][0] for i in range(30)]
        assert [leaders.count(broker) for broker in (1, 2, 3)] == [10, 10, 10]


@pytest.mark.parametrize(
    ("partitions", "multi_bytes_max"),
    [(LARGE, MULTI_BYTES), pytest.param(50 * LARGE, MULTI_BYTES_MAX, marks=pytest.mark.slow)],
)
async def test_a_topic_larger_than_a_multi_is_created_whole_and_deleted_whole(
    active: Activate, partitions: int, multi_bytes_max: int
) -> None:
    async with active([1, 2], multi_bytes_max=multi_bytes_max) as (session, controller, epochs):
        (outcome,) = await create(controller, NewTopic("t", partitions, 2))
        await check_whole(session, "t", epochs)
        placed = await assignments(session, "t")
        assert errors(await controller.admin.delete_topics(["t"])) == [None]
        assert await is_gone(session, "t")
        await check_replicas_deleted(session, outcome.topic_id or "", placed)


async def test_a_deleted_topic_is_gone_its_replicas_get_requests_and_its_name_is_free(
    active: Activate,
) -> None:
    """CORRECTNESS E6: what is deleted is named by its incarnation."""
    async with active([1, 2]) as (session, controller, epochs):
        (first,) = await create(controller, NewTopic("t", 4, 2))
        placed = await assignments(session, "t")
        outcomes = await controller.admin.delete_topics(["t", "never", "x", "x"])
        assert errors(outcomes) == [None, UnknownTopicOrPartition, InvalidRequest, InvalidRequest]
        assert await is_gone(session, "t")
        await check_replicas_deleted(session, first.topic_id or "", placed)
        (second,) = await create(controller, NewTopic("t", 4, 2))
        assert second.topic_id != first.topic_id
        await check_whole(session, "t", epochs)


async def test_a_deletion_by_id_leaves_a_later_topic_of_the_name(active: Activate) -> None:
    """CORRECTNESS E6: the id is that of the topic that the client knew."""
    async with active([1]) as (session, controller, _):
        (first,) = await create(controller, NewTopic("t", 1, 1))
        await controller.admin.delete_topics(["t"])
        second, _ = await create(controller, NewTopic("t", 1, 1), NewTopic("u", 1, 1))
        outcomes = await controller.admin.delete_topics(["t", "u"], [first.topic_id, ""])
        assert errors(outcomes) == [UnknownTopicOrPartition, None]
        assert await topics(session) == ["t"]
        assert errors(await controller.admin.delete_topics(["t"], [second.topic_id])) == [None]
        with pytest.raises(InvalidRequest, match="1 ids for 2 topics"):
            await controller.admin.delete_topics(["t", "u"], [first.topic_id])


async def test_deleting_removes_the_znode_of_a_leader_that_still_stands(
    zookeeper: str, open_session: SessionFactory
) -> None:
    session, broker = await open_session(), await open_session()
    await register(broker, [1])
    async with running(zookeeper) as controller:
        await controller.wait_active()
        await create(controller, NewTopic("t", 2, 1))
        await broker.create(znodes.leader("t", 0), b"{}", ephemeral=True)
        assert errors(await controller.admin.delete_topics(["t"])) == [None]
        assert await is_gone(session, "t")


async def test_concurrent_deletions_of_one_topic_notify_each_replica_once(active: Activate) -> None:
    async with active([1, 2], reconcile_ms=50) as (session, controller, _):
        (outcome,) = await create(controller, NewTopic("t", LASTING, 1))
        placed = await assignments(session, "t")
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(controller.admin.delete_topics(["t"])) for _ in range(5)]
        found = {errors(task.result())[0] for task in asked}
        assert found <= {None, UnknownTopicOrPartition}
        assert await is_gone(session, "t")
        await check_replicas_deleted(session, outcome.topic_id or "", placed)


async def test_a_topic_under_creation_is_not_taken_for_one_that_was_left(active: Activate) -> None:
    """The reconcile that removes unfinished topics runs all the time, and leaves this one alone."""
    async with active([1], reconcile_ms=50) as (session, controller, epochs):
        await create(controller, NewTopic("t", 2 * LASTING, 1))
        await check_whole(session, "t", epochs)


async def test_a_client_that_hangs_up_leaves_a_whole_topic(active: Activate) -> None:
    async with active([1]) as (session, controller, epochs):
        async with asyncio.TaskGroup() as tasks:
            new = NewTopic("t", LASTING, 1)
            work = partial(controller.admin.create_topics, [new])
            call = tasks.create_task(controller.activity.carry_out(work))
            await eventually(lambda: session.exists(znodes.topic("t")))
            call.cancel()

        async def finished() -> bool:
            node = await topic_node(session, "t")
            return node is not None and node.partitions == LASTING

        await eventually(finished)
        await check_whole(session, "t", epochs)


async def test_altering_keeps_other_configs_and_notifies_every_replica_in_the_present_epoch(
    active: Activate,
) -> None:
    async with active([1, 2]) as (session, controller, _):
        await create(controller, NewTopic("t", 2, 2, {"retention.ms": "1000", "segment.ms": "7"}))
        led = PartitionState(BrokerId(1), LeaderEpoch(41), ())
        await session.set(znodes.isr("t", 1), isr_znodes.dump_isr(led))
        await controller.admin.alter_topic(AlterTopic("t", {"retention.ms": "2000"}, ["segment.ms"]))
        node = await topic_node(session, "t")
        assert node is not None
        assert node.config == {"retention.ms": "2000"}
        for broker in (1, 2):
            last_queued = (await requests(session, broker))[-2:]
            assert {change.command for change in last_queued} == {Command.START_REPLICA}
            assert {change.key.partition: change.leader_epoch for change in last_queued} == {0: -1, 1: 41}


async def test_concurrent_changes_of_one_topic_are_all_kept(
    zookeeper: str, open_session: SessionFactory
) -> None:
    session = await open_session()
    await register(session, [1])
    changes = {"retention.ms": "1", "retention.bytes": "2", "segment.ms": "3", "flush.ms": "4"}
    async with running(zookeeper) as controller:
        await controller.wait_active()
        await create(controller, NewTopic("t", 1, 1))
        async with asyncio.TaskGroup() as tasks:
            for name, value in changes.items():
                tasks.create_task(controller.admin.alter_topic(AlterTopic("t", {name: value})))
        node = await topic_node(session, "t")
        assert node is not None
        assert node.config == changes


async def test_an_alteration_that_is_only_validated_has_the_same_refusals_and_no_effect(
    active: Activate,
) -> None:
    async with active([1, 2, 3]) as (session, controller, _):
        await create(controller, NewTopic("t", 1, 2))
        before = await topic_node(session, "t")

        async def validate(name: str, config: Mapping[str, str], partitions: int = 0) -> None:
            alteration = AlterTopic(name, config, ["segment.ms"], partitions, validate_only=True)
            await controller.admin.alter_topic(alteration)

        await validate("t", {"retention.ms": "1"}, 3)
        with pytest.raises(InvalidConfig, match=r"retention\.ms='soon'"):
            await validate("t", {"retention.ms": "soon"})
        with pytest.raises(InvalidPartitions, match="are allowed"):
            await validate("t", {}, PARTITIONS_PER_TOPIC_MAX + 1)
        with pytest.raises(UnknownTopicOrPartition):
            await validate("never", {"retention.ms": "1"})
        assert await topic_node(session, "t") == before


async def test_altering_is_refused_for_what_cannot_be(active: Activate) -> None:
    async with active([1, 2, 3]) as (session, controller, _):
        await create(controller, NewTopic("t", 1, 2))
        with pytest.raises(InvalidConfig, match=r"min\.insync\.replicas='0'"):
            await controller.admin.alter_topic(AlterTopic("t", {"min.insync.replicas": "0"}))
        with pytest.raises(UnknownTopicOrPartition):
            await controller.admin.alter_topic(AlterTopic("never", {"retention.ms": "1"}))
        node = await topic_node(session, "t")
        assert node is not None
        assert node.config == {}


async def test_the_cluster_is_described_with_epochs_and_backlogs(
    zookeeper: str, open_session: SessionFactory
) -> None:
    session = await open_session()
    epochs = await register(session, [1, 2])
    await register(session, [3], shutting_down=True)
    async with running(zookeeper, controller_id=7) as controller:
        await controller.wait_active()
        await create(controller, NewTopic("t", 5, 2))
        await create(controller, NewTopic("u", 0, assignments=((2,),)))
        cluster = await controller.admin.describe_cluster()
        assert cluster.cluster_id == (await session.get(znodes.CLUSTER_ID)).data.decode()
        assert cluster.controller.id == 7
        assert [broker.endpoint.id for broker in cluster.brokers if broker.alive] == [1, 2, 3]
        assert [broker.broker_epoch for broker in cluster.brokers[:2]] == [epochs[1], epochs[2]]
        assert [broker.shutting_down for broker in cluster.brokers] == [False, False, True]
        assert [broker.queued_state_changes for broker in cluster.brokers] == [5, 6, 0]


async def test_too_many_topics_at_once_are_refused_as_a_whole(zookeeper: str) -> None:
    async with running(zookeeper) as controller:
        await controller.wait_active()
        many = [NewTopic(f"t{i}", 1, 1) for i in range(TOPICS_PER_REQUEST_MAX + 1)]
        with pytest.raises(InvalidRequest) as caught:
            await controller.admin.create_topics(many)
        assert caught.value.limit == TOPICS_PER_REQUEST_MAX
        with pytest.raises(InvalidRequest):
            await controller.admin.delete_topics([new.name for new in many])


async def test_a_standby_controller_names_the_active_one(zookeeper: str) -> None:
    async with running(zookeeper, 1) as one:
        await one.wait_active()
        async with running(zookeeper, 2) as two:
            await two.wait_knows(1)
            (outcome,) = await two.admin.create_topics([NewTopic("t", 1, 1)])
            assert isinstance(outcome.error, NotController)
            assert outcome.error.leader is not None
            assert (outcome.error.leader.broker_id, outcome.error.leader.port) == (1, 7001)
            with pytest.raises(NotController):
                await two.admin.describe_cluster()


async def test_the_controller_sets_no_watch(zookeeper: str, open_session: SessionFactory) -> None:
    """At most 8 watches for the controller; this one needs none."""
    session = await open_session()
    await register(session, [1, 2, 3])
    port = int(zookeeper.partition("/")[0].rpartition(":")[2])

    async def watches() -> list[str]:
        return re.findall(r"zk_watch_count\t\d+", await four_letter_word(port, "mntr"))

    before = await eventually(watches)
    async with running(zookeeper, 1) as one:
        await one.wait_active()
        async with running(zookeeper, 2) as two:
            await two.wait_knows(1)
            await create(one, NewTopic("t", 3, 3))
            assert await eventually(watches) == before


@pytest.mark.parametrize("name", ["", "a/b", "..", "/", "t/0", "t/0/isr", "\0", "é", "x" * 300])
async def test_an_illegal_topic_name_never_becomes_a_path(active: Activate, name: str) -> None:
    """Bad input reaches no znode, in any request, and the controller continues."""
    async with active([1]) as (_, controller, _):
        await create(controller, NewTopic("t", 1, 1))
        for alteration in (AlterTopic(name, {"retention.ms": "1"}), AlterTopic(name, partitions=4)):
            with pytest.raises(UnknownTopicOrPartition):
                await controller.admin.alter_topic(alteration)
        assert errors(await controller.admin.delete_topics([name])) == [UnknownTopicOrPartition]
        where = TopicPartition(name, -3)
        (moved,) = await controller.admin.reassign(Reassign([PartitionReassignment(where, (1,))]))
        (elected,) = await controller.admin.elect_preferred([where])
        assert isinstance(moved.error, UnknownTopicOrPartition)
        assert isinstance(elected.error, UnknownTopicOrPartition)
        await create(controller, NewTopic("u", 1, 1))
