"""Faults that upkeep finds and repairs, on a real ZooKeeper and with real brokers (CORRECTNESS E8, Q7)."""

from __future__ import annotations

import pytest

from strandline import Producer
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.connect import connect
from strandline.adapters.zookeeper.layout import isr_znodes, queue_znodes, reassignment_znodes
from strandline.adapters.zookeeper.layout.queue_znodes import ElectionNotice
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.ports import Coordination
from strandline.vocabulary.admin import NewTopic
from strandline.vocabulary.metadata import IsrMember, PartitionState, Reassignment
from strandline.vocabulary.state_changes import Command
from tests.conftest import ClusterFactory
from tests.controller.support.running import Activate, Running
from tests.controller.support.znodes_seen import lead, requests
from tests.waiting import eventually

ROUND_S_MAX = 40.0
"""A round of upkeep, and the rest before it, which is long on a machine that is slow just now."""

SETTINGS = {"reconcile_ms": 50, "mend_after_ms": 100}
ROUNDS = {"reconcile_ms": 50, "mend_after_ms": 500}


async def empty(session: Coordination, folder: str) -> None:
    for child in await session.children(folder):
        await session.delete(f"{folder}/{child}")


async def created(controller: Running, *replicas: int) -> TopicId:
    (outcome,) = await controller.admin.create_topics([NewTopic("t", 0, assignments=[replicas])])
    assert outcome.topic_id, outcome
    return TopicId(outcome.topic_id)


async def notices(session: Coordination, broker: int) -> list[ElectionNotice]:
    folder = znodes.elections(broker)
    found = []
    for entry in await session.children(folder):
        found += queue_znodes.load_notices((await session.get(f"{folder}/{entry}")).data)
    return found


async def test_a_partition_without_a_leader_is_offered_to_its_first_live_member(active: Activate) -> None:
    async with active([2, 3], **SETTINGS) as (session, controller, epochs):
        await created(controller, 2, 3)
        await lead(session, "t", -1, epochs, 3, 2)
        (notice,) = await eventually(lambda: notices(session, 2), deadline_s=ROUND_S_MAX)
        assert (notice.topic, notice.leader_epoch, notice.give_to) == ("t", 5, -1)
        assert await notices(session, 3) == []


async def test_an_assigned_replica_that_no_request_ever_started_is_asked(active: Activate) -> None:
    async with active([1, 2], **SETTINGS) as (session, controller, epochs):
        topic_id = await created(controller, 1, 2)
        await lead(session, "t", 1, epochs, 1)
        await empty(session, znodes.state_queue(2))
        (change,) = await eventually(lambda: requests(session, 2), deadline_s=ROUND_S_MAX)
        assert (change.command, change.key, change.leader_epoch, change.requester) == (
            Command.START_REPLICA, PartitionKey(topic_id, PartitionId(0)), 5, -1,
        )  # fmt: skip


async def test_leftovers_of_what_is_gone_are_removed_and_of_what_is_there_are_not(active: Activate) -> None:
    async with active([1], **SETTINGS) as (session, controller, epochs):
        topic_id = await created(controller, 1)
        await lead(session, "t", 1, epochs, 1)
        for name, incarnation in (("t", topic_id), ("gone", TopicId("e" * 32))):
            await session.ensure_path(znodes.reassigned_topic(name))
            wanted = Reassignment(incarnation, (BrokerId(1),), (BrokerId(1),))
            await session.create(znodes.reassigned(name, 0), reassignment_znodes.dump_reassignment(wanted))
        data = queue_znodes.dump_notices(
            [ElectionNotice("t", PartitionKey(topic_id, PartitionId(0)), LeaderEpoch(1))]
        )
        for broker in (1, 9):
            await session.ensure_path(znodes.elections(broker))
            for _ in range(3):
                await session.create(znodes.election_notice_prefix(broker), data, sequential=True)

        async def removed() -> bool:
            reassigned = await session.children(znodes.REASSIGNED)
            return reassigned == ["t"] and not await session.children(znodes.elections(9))

        await eventually(removed, deadline_s=ROUND_S_MAX)
        assert await session.exists(znodes.reassigned("t", 0)) is not None
        assert len(await session.children(znodes.elections(1))) == 3


async def test_foreign_znodes_are_skipped(active: Activate) -> None:
    """Unreadable znodes stop no round: the partition beside them is still repaired."""
    async with active([1], **SETTINGS) as (session, controller, epochs):
        await created(controller, 1)
        for path in (
            znodes.drain(1), f"{znodes.DRAINS}/x", f"{znodes.ELECTIONS}/x", f"{znodes.STATE}/x",
            f"{znodes.STATE}/7/request-0000000000", f"{znodes.STATE}/1/odd", f"{znodes.REASSIGNED}/t/0",
            f"{znodes.REASSIGNED}/t/x", f"{znodes.TOPICS}/odd", f"{znodes.BROKER_IDS}/5",
        ):  # fmt: skip
            await session.ensure_path(path)
            await session.set(path, b'{"odd":')
        await lead(session, "t", -1, epochs, 1)
        assert await eventually(lambda: notices(session, 1), deadline_s=ROUND_S_MAX)


@pytest.mark.slow
async def test_brokers_that_lost_all_their_requests_get_their_replicas_and_serve(
    make_cluster: ClusterFactory,
) -> None:
    """Q7: a queue that was lost loses nothing. The topic's znodes are written, and no request is."""
    cluster = await make_cluster(
        brokers=3, controller_settings=ROUNDS, broker_settings={"reconcile_ms": 60_000}
    )
    session = await connect(ZooKeeperSettings(zookeeper=cluster.zookeeper))
    try:
        epochs = {broker: (await session.get(znodes.broker(broker))).czxid for broker in cluster.broker_ids}
        members = tuple(IsrMember(BrokerId(b), BrokerEpoch(e)) for b, e in epochs.items())
        state = PartitionState(BrokerId(-1), LeaderEpoch(-1), members)
        for path in (znodes.topic("t"), znodes.partition("t", 0), znodes.topic_id(TopicId("d" * 32))):
            await session.create(path)
        await session.create(znodes.replicas("t", 0), znodes.dump_replicas([1, 2, 3]))
        await session.create(znodes.isr("t", 0), isr_znodes.dump_isr(state))
        node = znodes.TopicNode(TopicId("d" * 32), 1, {})
        await session.set(znodes.topic("t"), znodes.dump_topic(node))
        async with Producer(cluster.bootstrap) as producer:
            assert (await producer.send_and_wait("t", b"x")).offset == 0

        async def whole() -> bool:
            found = isr_znodes.load_isr("t", 0, (await session.get(znodes.isr("t", 0))).data)
            return set(found.isr_ids) == {1, 2, 3}

        await eventually(whole, deadline_s=ROUND_S_MAX)
    finally:
        await session.close()
