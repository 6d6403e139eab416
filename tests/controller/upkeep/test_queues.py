"""Queues of brokers that are gone, kept in bounds by the active controller (CORRECTNESS Q4, Q5, Q7)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from strandline import Admin, LocalCluster
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.connect import connect
from strandline.adapters.zookeeper.layout import queue_znodes
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.ids import BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.ports import Coordination
from strandline.tasks import pipelined
from strandline.vocabulary.state_changes import ENDS, Command, RequestState, StateChange, StateChangeEvent
from tests.conftest import ClusterFactory
from tests.controller.support.running import process
from tests.controller.support.znodes_seen import requests
from tests.waiting import eventually

pytestmark = pytest.mark.slow

GONE = 9
"""A broker that was here once: there is its queue, and nothing else of it."""

COALESCE = 20
MERGE_FROM = 300
SETTINGS: dict[str, Any] = {
    "reconcile_ms": 50,
    "mend_after_ms": 50,
    "queue_coalesce_requests": COALESCE,
    "queue_merge_znodes": MERGE_FROM,
}
GONE_TOPIC = TopicId("f" * 32)
CREATES_IN_FLIGHT_MAX = 500


def request(
    command: Command, topic: str, topic_id: str, partition: int = 0, epoch: int = 1, requester: int = 1
) -> StateChange:
    key = PartitionKey(TopicId(topic_id), PartitionId(partition))
    return StateChange(
        uuid4().hex, command, topic, key, LeaderEpoch(epoch), BrokerId(requester), 1_000_000 + epoch
    )


async def put(session: Coordination, broker: int, *znodes_of: Sequence[StateChange]) -> None:
    """Each of these in a znode of its own, in order."""
    await session.ensure_path(znodes.state_queue(broker))
    for changes in znodes_of:
        data = queue_znodes.dump_state_changes(changes)
        await session.create(znodes.state_entry_prefix(broker), data, sequential=True)


@asynccontextmanager
async def looking_into(cluster: LocalCluster) -> AsyncIterator[Coordination]:
    session = await connect(ZooKeeperSettings(zookeeper=cluster.zookeeper))
    try:
        yield session
    finally:
        await session.close()


async def topic_of(cluster: LocalCluster, name: str) -> str:
    """A topic of one partition; its id."""
    async with Admin(cluster.bootstrap) as admin:
        return await admin.create_topic(name)


async def events_of(cluster: LocalCluster, ids: Sequence[str]) -> dict[str, list[StateChangeEvent]]:
    """The records of these requests in `__state_changes`."""
    found: defaultdict[str, list[StateChangeEvent]] = defaultdict(list)
    async with Admin(cluster.bootstrap) as admin:
        async for event in admin.state_changes():
            if event.id in ids:
                found[event.id].append(event)
    return found


async def left(session: Coordination, broker: int = GONE) -> list[str]:
    return [change.request_id for change in await requests(session, broker)]


async def test_superseded_requests_end_are_recorded_and_leave_the_queue(
    make_cluster: ClusterFactory,
) -> None:
    """Q4: a queue of a broker that is gone for long is bounded by what is still to be done."""
    cluster = await make_cluster(brokers=1, controller_settings=SETTINGS)
    topic_id = await topic_of(cluster, "t")
    starts = [request(Command.START_REPLICA, "t", topic_id, epoch=n) for n in range(2 * COALESCE)]
    deletion = request(Command.DELETE_REPLICA, "old", GONE_TOPIC)
    async with looking_into(cluster) as session:
        await put(session, GONE, starts[:5], [*starts[5:9], deletion], *([each] for each in starts[9:]))
        wanted = sorted([starts[-1].request_id, deletion.request_id])

        async def only_what_counts() -> bool:
            waiting = [c.request_id for c in await requests(session, GONE) if c.end is None]
            return sorted(waiting) == wanted and len(await session.children(znodes.state_queue(GONE))) == 2

        await eventually(only_what_counts, deadline_s=40)
        recorded = await events_of(cluster, [each.request_id for each in starts])
        for each in starts[:-1]:
            assert [event.state for event in recorded[each.request_id]] == [
                RequestState.REQUESTED,
                RequestState.SUPERSEDED,
            ]
            assert recorded[each.request_id][-1].broker == GONE
            assert "later start-replica" in recorded[each.request_id][-1].reason
        assert recorded[starts[-1].request_id] == []
        async with Admin(cluster.bootstrap) as admin:
            (gone,) = [b for b in (await admin.describe_cluster()).brokers if b.endpoint.id == GONE]
        assert (gone.alive, gone.queued_state_changes) == (False, 2)
        assert gone.oldest_queued_at_ms == deletion.at_ms


async def test_a_request_about_what_is_gone_ends_but_a_deletion_waits_for_its_broker(
    make_cluster: ClusterFactory,
) -> None:
    """Q7, and a queue below the bound is otherwise left as it is."""
    cluster = await make_cluster(brokers=1, controller_settings=SETTINGS)
    topic_id = await topic_of(cluster, "t")
    stays = [
        request(Command.DELETE_REPLICA, "old", GONE_TOPIC),
        request(Command.START_REPLICA, "t", topic_id, epoch=1),
        request(Command.START_REPLICA, "t", topic_id, epoch=2),
    ]
    goes = [
        request(Command.START_REPLICA, "old", GONE_TOPIC),
        request(Command.CLOSE_REPLICA, "t", GONE_TOPIC),
        request(Command.START_REPLICA, "t", topic_id, partition=7),
    ]
    async with looking_into(cluster) as session:
        await put(session, GONE, *([each] for each in goes), stays)

        async def settled() -> bool:
            return await left(session) == [each.request_id for each in stays]

        await eventually(settled, deadline_s=40)
        recorded = await events_of(cluster, [each.request_id for each in goes])
        for each in goes:
            assert recorded[each.request_id][-1].state is RequestState.SUPERSEDED
            assert "gone" in recorded[each.request_id][-1].reason


async def test_many_znodes_are_put_together_in_their_order(
    make_cluster: ClusterFactory, tmp_path: Path
) -> None:
    """Q4: ZooKeeper lists the children of a znode in one message, so their number has a bound."""
    cluster = await make_cluster(brokers=1, controllers=0)
    changes = [request(Command.DELETE_REPLICA, "old", GONE_TOPIC, n) for n in range(MERGE_FROM)]
    async with looking_into(cluster) as session:
        await session.ensure_path(znodes.state_queue(GONE))

        async def create(change: StateChange) -> None:
            await put(session, GONE, [change])

        await pipelined(create, changes, in_flight_max=CREATES_IN_FLIGHT_MAX)
        before = await left(session)
        assert len(before) == MERGE_FROM

        async def few() -> bool:
            return len(await session.children(znodes.state_queue(GONE))) < MERGE_FROM // 100

        async with process(1, cluster.zookeeper, tmp_path, **SETTINGS):
            await eventually(few, deadline_s=40)
        assert await left(session) == before


@pytest.mark.parametrize(
    "point", ["controller.queue.settled", "controller.queue.removed", "controller.queue.merged"]
)
async def test_the_next_controller_continues_where_the_last_one_died(
    make_cluster: ClusterFactory, tmp_path: Path, point: str
) -> None:
    """Q5: ends are written before they are recorded, and recorded before the request goes."""
    cluster = await make_cluster(brokers=1, controllers=0)
    settings = {**SETTINGS, "zookeeper_session_timeout_ms": 1_000}
    async with looking_into(cluster) as session:
        doomed = process(1, cluster.zookeeper, tmp_path, crash_points=point, **settings)
        async with doomed as one:
            topic_id = await topic_of(cluster, "t")
            starts = [request(Command.START_REPLICA, "t", topic_id, epoch=n) for n in range(2 * COALESCE)]
            lasting = [request(Command.DELETE_REPLICA, "old", GONE_TOPIC, n) for n in range(COALESCE)]
            mixed = [[start, *lasting[:1]] for start in starts[:1]]
            await put(
                session, GONE, *mixed, starts[1 : COALESCE // 2], [*starts[COALESCE // 2 :], *lasting[1:]]
            )
            await eventually(lambda: one.dead, deadline_s=40, what="the controller has died at the point")
        async with process(2, cluster.zookeeper, tmp_path, **settings):
            ids = [each.request_id for each in starts[:-1]]

            async def gone() -> bool:
                return not set(ids).intersection(c.request_id for c in await requests(session, GONE))

            await eventually(gone, deadline_s=40)
            recorded = await events_of(cluster, ids)
            for each in ids:
                assert Counter(event.state for event in recorded[each] if event.state in ENDS) == {
                    RequestState.SUPERSEDED: 1
                }
            waiting = {c.request_id for c in await requests(session, GONE) if c.end is None}
            assert waiting == {starts[-1].request_id, *(each.request_id for each in lasting)}


async def test_each_request_ends_once_though_its_broker_returns_while_the_controller_tidies_up(
    make_cluster: ClusterFactory,
) -> None:
    """Q5: both settle by compare-and-sets, so of two ends one is written."""
    cluster = await make_cluster(
        brokers=2,
        broker_settings={"zookeeper_session_timeout_ms": 1_000},
        controller_settings={**SETTINGS, "queue_coalesce_requests": 5},
    )
    async with Admin(cluster.bootstrap) as admin:
        topic_id = await admin.create_topic("t", partitions=4, replication_factor=2)
    async with looking_into(cluster) as session:
        asked: list[str] = []
        for _ in range(3):
            await cluster.kill_broker(2)
            changes = [
                request(Command.START_REPLICA, "t", topic_id, n % 4, epoch=0, requester=-1)
                for n in range(120)
            ]
            asked += [change.request_id for change in changes]
            await put(session, 2, *(changes[n : n + 3] for n in range(0, 120, 3)))

            async def is_gone() -> bool:
                return "2" not in await session.children(znodes.BROKER_IDS)

            await eventually(is_gone, deadline_s=40)
            await cluster.start_broker(2)

            async def is_empty() -> bool:
                return not await left(session, 2)

            await eventually(is_empty, deadline_s=40)
        recorded = await events_of(cluster, asked)
        ends = {each: [e.state for e in recorded[each] if e.state in ENDS] for each in asked}
        assert all(len(states) == 1 for states in ends.values())
        every = Counter(state for states in ends.values() for state in states)
        assert set(every) == {RequestState.COMPLETED, RequestState.SUPERSEDED}
