"""Forgetting a broker, on a real ZooKeeper, with brokers that the test registers (CORRECTNESS Q4, Q5)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes, queue_znodes
from strandline.adapters.zookeeper.layout.queue_znodes import ElectionNotice
from strandline.controller.core.topics import TopicPlan
from strandline.controller.replicas.forgetting import forget_broker
from strandline.controller.replicas.reassignment import Reassignments
from strandline.controller.term.term import BrokerForgotten, Term
from strandline.controller.topics.creation import NewIncarnation, create_topics
from strandline.errors import InvalidRequest
from strandline.ids import (
    NO_BROKER,
    NO_EPOCH,
    BrokerId,
    LeaderEpoch,
    PartitionId,
    PartitionKey,
    TopicId,
    TopicPartition,
)
from strandline.ports import Coordination, Create
from strandline.vocabulary.admin import DrainBroker, NewTopic, PartitionReassignment
from strandline.vocabulary.metadata import PartitionState
from strandline.vocabulary.state_changes import Command, RequestState, StateChange, StateChangeEvent
from tests.conftest import SessionFactory
from tests.controller.support.between import Between, term_alone
from tests.controller.support.running import Activate, process, running
from tests.controller.support.znodes_seen import assignments, is_gone, kept_events, register, requests
from tests.waiting import eventually

SETTINGS = {"reconcile_ms": 50, "mend_after_ms": 60_000}
GONE = 9
KEY = PartitionKey(TopicId("f" * 32), PartitionId(0))


async def leave_behind(session: Coordination, count: int = 2) -> list[str]:
    """What a broker that is gone has in ZooKeeper; the ids of its requests, each in a znode of its own."""
    changes = [
        StateChange(f"r{number}", Command.DELETE_REPLICA, "t", KEY, LeaderEpoch(1), BrokerId(1), 5)
        for number in range(count)
    ]
    await session.ensure_path(znodes.state_queue(GONE))
    await session.ensure_path(znodes.elections(GONE))
    for change in changes:
        data = queue_znodes.dump_state_changes([change])
        await session.create(znodes.state_entry_prefix(GONE), data, sequential=True)
    notice = queue_znodes.dump_notices([ElectionNotice("t", KEY, LeaderEpoch(1))])
    await session.create(znodes.election_notice_prefix(GONE), notice, sequential=True)
    return [change.request_id for change in changes]


async def left(session: Coordination) -> list[str]:
    paths = (znodes.state_queue(GONE), znodes.elections(GONE), znodes.drain(GONE), znodes.broker(GONE))
    return [path for path in paths if await session.exists(path) is not None]


def ended(events: Sequence[StateChangeEvent]) -> list[tuple[str, RequestState, str]]:
    return [(e.id, e.state, e.reason) for e in events if e.state is not RequestState.REQUESTED]


async def test_its_requests_fail_and_nothing_of_it_stays(active: Activate) -> None:
    async with active([1, 2], **SETTINGS) as (session, controller, _):
        ids = await leave_behind(session)
        await controller.admin.drain_broker(DrainBroker(GONE, replicas=True))
        health = controller.activity.require().health
        await eventually(lambda: GONE in health.backlogs, what="the metrics have it")
        forgotten = await controller.admin.forget_broker(GONE)
        assert (forgotten.was_known, forgotten.requests) == (True, 2)
        reason = f"broker {GONE} was forgotten"
        assert ended(await kept_events(session)) == [(each, RequestState.FAILED, reason) for each in ids]
        assert await left(session) == []
        described = (await controller.admin.describe_cluster()).brokers
        assert [broker.endpoint.id for broker in described] == [1, 2]
        await eventually(lambda: GONE not in health.backlogs, what="the metrics have it no more")
        assert not (await controller.admin.forget_broker(GONE)).was_known, "to repeat it is no error"
        await register(session, [GONE])
        back = (await controller.admin.describe_cluster()).brokers[-1]
        assert (back.endpoint.id, back.alive, back.queued_state_changes) == (GONE, True, 0)


async def test_a_broker_that_is_alive_or_has_replicas_is_refused_and_keeps_its_queue(
    active: Activate, open_session: SessionFactory
) -> None:
    async with active([1, 2], **SETTINGS) as (session, controller, _):
        other = await open_session()
        await register(other, [GONE])
        (made,) = await controller.admin.create_topics([NewTopic("t", 0, assignments=[(1, 2), (2, GONE)])])
        assert made.error is None
        with pytest.raises(InvalidRequest, match="broker 9 is alive"):
            await controller.admin.forget_broker(GONE)
        await other.close()
        with pytest.raises(InvalidRequest, match=r"has replicas, or gets them .*: t-1\. Move them first"):
            await controller.admin.forget_broker(GONE)
        assert [change.command for change in await requests(session, GONE)] == [Command.START_REPLICA]


async def test_what_an_unfinished_creation_left_at_it_is_still_removed(active: Activate) -> None:
    """No survey shows the partitions of a topic that is not visible yet: its removal needs the queue."""
    async with active([1], **SETTINGS) as (session, controller, _):
        await leave_behind(session)
        assert (await controller.admin.forget_broker(GONE)).was_known
        topic_id = TopicId("e" * 32)
        state = PartitionState(NO_BROKER, NO_EPOCH, ())
        await session.multi(
            [
                Create(znodes.topic("t"), znodes.dump_topic(znodes.TopicNode(topic_id, 0, {}))),
                Create(znodes.topic_id(topic_id)),
                Create(znodes.partition("t", 0)),
                Create(znodes.replicas("t", 0), znodes.dump_replicas((BrokerId(1), BrokerId(GONE)))),
                Create(znodes.isr("t", 0), isr_znodes.dump_isr(state)),
                Create(znodes.delete_topic("t"), znodes.dump_deletion(topic_id)),
            ]
        )

        async def gone() -> bool:
            return await is_gone(session, "t")

        await eventually(gone, what="the topic is removed")
        assert [change.key.topic_id for change in await requests(session, GONE)] == [topic_id]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "still"),
    [
        ("controller.forget.ended:2", True),
        ("controller.forget.before_removal", True),
        ("controller.forget.removed", False),
    ],
)
async def test_the_next_controller_continues_it(
    zookeeper: str, open_session: SessionFactory, tmp_path: Path, point: str, still: bool
) -> None:
    """Each request fails once, whichever controller ends it."""
    session = await open_session()
    await register(session, [1])
    ids = await leave_behind(session, 401)  # three writes
    async with process(1, zookeeper, tmp_path, crash_points=point, **SETTINGS) as doomed:
        await eventually(doomed.is_active, deadline_s=60)
        await doomed.forget(GONE)
        await eventually(lambda: doomed.dead, deadline_s=60, what="the controller has died at the point")
    assert (await session.exists(znodes.state_queue(GONE)) is not None) == still
    async with running(zookeeper, 2, **SETTINGS) as controller:
        await controller.wait_active()
        assert (await controller.admin.forget_broker(GONE)).was_known == still
    assert await left(session) == []
    assert sorted(each for each, *_ in ended(await kept_events(session))) == sorted(ids)


# --- requests that are under way meanwhile ------------------------------------------------------


@asynccontextmanager
async def in_the_term(
    zookeeper: str, open_session: SessionFactory
) -> AsyncIterator[tuple[Term, Between, Coordination]]:
    """A term in which nothing else acts; topic "t" is on broker 1, and broker 9 has left."""
    session = await open_session()
    async with term_alone(zookeeper, session, [1], [1]) as (term, between):
        await leave_behind(session)
        yield term, between, session


async def test_a_move_that_was_planned_before_gives_it_no_replica(
    zookeeper: str, open_session: SessionFactory
) -> None:
    """Its queue does not come back, either: it would be listed again."""
    async with in_the_term(zookeeper, open_session) as (term, between, session):

        async def forget() -> None:
            assert (await forget_broker(term, BrokerId(GONE))).was_known

        between.after[znodes.topic("t")] = forget  # the brokers are read, the partition is not yet
        move = PartitionReassignment(TopicPartition("t", 0), (1, GONE))
        (outcome,) = await Reassignments(term).ask([move])
        assert outcome.error is not None
        assert "broker 9 is not known; known are 1" in outcome.error.message
        assert await left(session) == []
        assert await assignments(session, "t") == [(1,)]


async def test_a_look_at_the_brokers_that_began_before_brings_nothing_back(
    zookeeper: str, open_session: SessionFactory
) -> None:
    async with in_the_term(zookeeper, open_session) as (term, between, session):

        async def forget() -> None:
            assert (await forget_broker(term, BrokerId(GONE))).was_known

        between.after[znodes.STATE] = forget
        assert GONE in (await term.brokers()).known
        assert await left(session) == []


@pytest.mark.parametrize("partitions", [1, 60], ids=["in-one-write", "in-parts"])
async def test_a_topic_that_is_being_created_is_refused(
    zookeeper: str, open_session: SessionFactory, partitions: int
) -> None:
    """No survey has the partitions of a topic that is not visible yet, so forgetting it goes through."""
    async with in_the_term(zookeeper, open_session) as (term, between, session):
        brokers = await term.brokers()
        placed = ((BrokerId(1), BrokerId(GONE)), *[(BrokerId(1),)] * (partitions - 1))

        async def forget() -> None:
            assert (await forget_broker(term, BrokerId(GONE))).was_known

        if partitions > 1:
            between.after[znodes.partition("u", 0)] = forget
        else:
            await forget()
        asked = NewIncarnation(TopicPlan("u", {}, placed), TopicId("d" * 32))
        (error,) = (await create_topics(term, [asked], brokers)).values()
        assert isinstance(error, BrokerForgotten)
        assert error.message.startswith("broker 9 was forgotten meanwhile")
        assert await is_gone(session, "u")
