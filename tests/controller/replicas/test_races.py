"""What begins between the reads of a balance or a drain, on a real ZooKeeper."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout.reassignment_znodes import dump_reassignment
from strandline.controller.core.reassignment import MoveFrom
from strandline.controller.core.survey import Survey
from strandline.controller.replicas.balance import CAUSE, Balances
from strandline.controller.replicas.deadlines import Deadlines
from strandline.controller.replicas.drains import Drains
from strandline.controller.replicas.reassignment import Reassignments
from strandline.controller.term.surveying import read_survey
from strandline.controller.term.term import Term
from strandline.controller.topics.topics import Topics
from strandline.controller.upkeep.repairs import Repairs
from strandline.errors import InvalidRequest
from strandline.ids import BrokerId, TopicId, TopicPartition
from strandline.ports import Coordination
from strandline.vocabulary.admin import (
    BalanceAction,
    BalancePlan,
    DrainBroker,
    NewTopic,
    PartitionReassignment,
)
from strandline.vocabulary.metadata import BalanceMove, BalanceState
from tests.conftest import SessionFactory
from tests.controller.support.between import Between, term_alone
from tests.controller.support.znodes_seen import (
    finish_reassignment,
    reassignment,
    register,
    topic_node,
)
from tests.waiting import eventually

NAME = TopicPartition("t", 0)
BEFORE, AFTER = (BrokerId(1), BrokerId(2)), (BrokerId(3), BrokerId(2))


@dataclass(frozen=True, slots=True)
class Acting:
    """The balances of a term in which nothing else acts. Topic "t" has one partition, on brokers 1 and 2."""

    session: Coordination
    reads: Between
    """Those of the term."""
    term: Term
    reassignments: Reassignments
    balances: Balances
    topic_id: TopicId

    async def survey(self) -> Survey:
        return await read_survey(self.term.session, await self.term.brokers())

    async def begin(self) -> None:
        """A balance that moves the partition to brokers 3 and 2."""
        move = BalanceMove(NAME, self.topic_id, BEFORE, AFTER)
        await self.balances.begin(BalancePlan((move,), ()), 0)

    async def ask(self, move: PartitionReassignment, cause: str = "") -> None:
        assert [each.error for each in await self.reassignments.ask([move], cause=cause)] == [None]

    async def move(self) -> None:
        """As a step of the balance does."""
        await self.ask(MoveFrom(NAME, AFTER, topic_id=self.topic_id, before=BEFORE), CAUSE)


@asynccontextmanager
async def acting(zookeeper: str, open_session: SessionFactory, **settings: int) -> AsyncIterator[Acting]:
    session = await open_session()
    async with term_alone(zookeeper, session, [1, 2, 3], BEFORE, **settings) as (term, between):
        node = await topic_node(session, "t")
        assert node is not None
        reassignments = Reassignments(term)
        yield Acting(session, between, term, reassignments, Balances(term, reassignments), node.topic_id)


async def test_a_move_that_begins_while_a_survey_is_read_is_not_skipped(
    zookeeper: str, open_session: SessionFactory
) -> None:
    """The survey has its replicas, and no reassignment that explains them."""
    async with acting(zookeeper, open_session) as on:
        await on.begin()
        on.reads.after[znodes.REASSIGNED] = on.move
        torn = await on.survey()
        assert [(each.assigned, each.reassignment) for each in torn.partitions] == [((1, 2, 3), None)]
        described = await on.balances.describe(torn, ())
        assert (described.moving, described.skipped, described.problems) == (1, 0, ())
        await on.balances.step(torn, ())
        await finish_reassignment(on.session, *NAME)
        await on.balances.step(await on.survey(), ())
        ended = await on.balances.describe(await on.survey(), ())
        assert (ended.state, ended.done, ended.skipped) == (BalanceState.COMPLETED, 1, 0)


async def test_a_survey_that_is_older_than_a_topic_does_not_take_it_for_deleted(
    zookeeper: str, open_session: SessionFactory
) -> None:
    async with acting(zookeeper, open_session) as on:
        now = await on.survey()
        older = Survey(now.live, now.known, {}, {}, ())
        await on.begin()
        await on.balances.step(older, ())
        described = await on.balances.describe(now, ())
        assert (described.state, described.left) == (BalanceState.RUNNING, 1)


async def test_a_move_by_hand_that_begins_under_a_cancellation_is_not_taken_back(
    zookeeper: str, open_session: SessionFactory
) -> None:
    by_hand: Sequence[int] = (2, 3, 1)
    async with acting(zookeeper, open_session) as on:
        await on.begin()
        await on.move()
        survey = await on.survey()

        async def asked() -> None:
            await on.ask(PartitionReassignment(NAME, tuple(by_hand)))

        on.reads.after[znodes.isr(*NAME)] = asked  # the list of what is under way is read whole then
        described = await on.balances.alter(BalanceAction.REVERT, survey, ())
        assert described.state is BalanceState.CANCELLED
        now = await reassignment(on.session, *NAME)
        assert now is not None
        assert (now.replicas, now.reverting) == (by_hand, False)


async def test_a_drain_gives_a_partition_no_more_replicas_than_it_had(
    zookeeper: str, open_session: SessionFactory
) -> None:
    """Its survey is torn: it has a replica that a move by hand adds, and does not show the move."""
    async with acting(zookeeper, open_session) as on:
        await register(on.session, [4])
        drains = Drains(on.term, on.reassignments)
        await drains.begin(BrokerId(1), DrainBroker(1, replicas=True))

        async def asked() -> None:
            await on.ask(PartitionReassignment(NAME, (1, 3)))

        on.reads.after[znodes.REASSIGNED] = asked
        torn = await on.survey()
        assert [(each.assigned, each.reassignment) for each in torn.partitions] == [((1, 2, 3), None)]
        await drains.step(torn, drains.plan(torn))
        now = await reassignment(on.session, *NAME)
        assert now is not None
        assert now.replicas == (1, 3)


async def test_a_request_to_drain_that_lands_within_another_is_not_lost(
    zookeeper: str, open_session: SessionFactory
) -> None:
    """Between its read and its write: it is judged by what stands then."""
    async with acting(zookeeper, open_session) as on:
        drains, broker = Drains(on.term, on.reassignments), BrokerId(1)
        assert await drains.begin(broker, DrainBroker(1, until_restart=True))

        async def emptied() -> None:
            assert await drains.begin(broker, DrainBroker(1, replicas=True))

        async def brokers_read() -> None:
            on.reads.after[znodes.drain(broker)] = emptied

        on.reads.after[znodes.drain(broker)] = brokers_read
        with pytest.raises(InvalidRequest, match="drained of its replicas too"):
            await drains.begin(broker, DrainBroker(1))
        assert (await on.survey()).is_emptied(broker)


async def test_a_deadline_of_a_topic_that_is_gone_marks_no_move_of_the_next_one(
    zookeeper: str, open_session: SessionFactory
) -> None:
    """The versions of the next topic's znodes begin again."""
    async with acting(zookeeper, open_session) as on:
        move, topics = PartitionReassignment(NAME, AFTER), Topics(on.term)
        await on.reassignments.ask([move], timeout_ms=1)
        survey = await on.survey()

        async def made_anew() -> None:
            _ = await topics.delete(["t"], [], ())
            new = NewTopic("t", 0, assignments=[BEFORE])
            (made,) = await topics.create([new], (), validate_only=False, internal=False)
            assert made.error is None
            await on.ask(move)

        on.reads.after[znodes.reassigned(*NAME)] = made_anew
        await Deadlines(on.term, on.reassignments).step(survey)
        node, standing = await topic_node(on.session, "t"), await reassignment(on.session, *NAME)
        assert node is not None and standing is not None
        assert standing.topic_id == node.topic_id != on.topic_id


async def test_a_move_of_the_present_topic_is_not_taken_for_that_of_one_that_is_gone(
    zookeeper: str, open_session: SessionFactory
) -> None:
    """It begins after the survey that shows a leftover in its place."""
    async with acting(zookeeper, open_session, mend_after_ms=50) as on:
        await on.move()
        there = await on.session.get(znodes.reassigned(*NAME))
        gone = znodes.reassigned("gone", 0)
        await on.session.ensure_path(gone)
        await on.session.set(gone, there.data)
        now, repairs = await on.survey(), Repairs(on.term)
        before = [
            replace(each, topic_id=TopicId("before")) if each.topic == "t" else each
            for each in now.reassignments
        ]
        survey = replace(now, reassignments=before)

        async def dropped() -> bool:
            await repairs.step(survey, {})
            return await on.session.exists(gone) is None

        await eventually(dropped)
        assert await reassignment(on.session, *NAME) is not None


async def test_a_move_that_begins_while_a_leftover_is_dropped_stays(
    zookeeper: str, open_session: SessionFactory
) -> None:
    """The topic beside the leftover is made anew after the leftover was read, and its partition moves."""
    async with acting(zookeeper, open_session, mend_after_ms=50) as on:
        path, topics, repairs = znodes.reassigned(*NAME), Topics(on.term), Repairs(on.term)
        await on.move()
        moving = await reassignment(on.session, *NAME)
        assert moving is not None
        await on.session.delete(path)
        await on.session.create(path, dump_reassignment(replace(moving, topic_id=TopicId("before"))))
        survey = await on.survey()

        async def made_anew() -> None:
            (gone,) = await topics.delete(["t"], [], ())
            new = NewTopic("t", 0, assignments=[BEFORE])
            (made,) = await topics.create([new], (), validate_only=False, internal=False)
            assert gone.error is made.error is None
            await on.ask(PartitionReassignment(NAME, AFTER))

        async def tried() -> bool:
            await repairs.step(survey, {})
            return path not in on.reads.after

        on.reads.after[path] = made_anew
        await eventually(tried)
        node, standing = await topic_node(on.session, "t"), await reassignment(on.session, *NAME)
        assert node is not None and standing is not None
        assert standing.topic_id == node.topic_id != on.topic_id
