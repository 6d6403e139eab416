"""What upkeep reads while replicas move, on a real ZooKeeper: the work grows with what moves, and not with
the cluster times the moves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from strandline.adapters.zookeeper import znodes
from strandline.controller.core.survey import Survey
from strandline.controller.replicas.reassignment import Reassignments
from strandline.controller.term.surveying import read_survey, read_survey_again
from strandline.controller.upkeep.upkeep import Upkeep
from strandline.ids import BrokerId, TopicPartition
from strandline.vocabulary.admin import DrainBroker, PartitionReassignment
from tests.conftest import SessionFactory
from tests.controller.core.support.surveys import partition
from tests.controller.support.between import term_alone
from tests.controller.support.znodes_seen import assignments, finish_reassignment, reassignment
from tests.waiting import eventually

STAYING = [(2, 3)] * 20
"""Partitions that no test moves."""


def isrs(numbers: Iterable[int]) -> list[str]:
    return [znodes.isr("t", number) for number in numbers]


def as_facts(survey: Survey) -> Survey:
    return replace(survey, partitions=sorted(survey.partitions, key=lambda each: each.name))


async def test_a_survey_again_reads_what_moves_and_what_has_changed(
    zookeeper: str, open_session: SessionFactory
) -> None:
    """A move that began, one that ended, and a partition that was named are as in a whole survey."""
    session = await open_session()
    async with term_alone(zookeeper, session, [1, 2, 3], (1, 2), (1, 2), *STAYING) as (term, reads):
        move = Reassignments(term)

        async def ask(number: int) -> None:
            wanted = PartitionReassignment(TopicPartition("t", number), (3, 2))
            assert [each.error for each in await move.ask([wanted])] == [None]

        await ask(0)
        last = await read_survey(term.session, await term.brokers())
        await finish_reassignment(session, "t", 0)
        await ask(1)
        reads.reads.clear()
        again = await read_survey_again(
            term.session, await term.brokers(), last, [TopicPartition("t", 7), TopicPartition("t", 99)]
        )
        assert [path for path in isrs(range(22)) if reads.reads[path]] == isrs([0, 1, 7])
        assert as_facts(again) == as_facts(await read_survey(term.session, await term.brokers()))
        unchanged = await read_survey_again(term.session, await term.brokers(), again, [])
        assert unchanged == again  # so nothing has to be planned anew


async def test_a_survey_again_has_no_partition_of_a_topic_that_is_gone(
    zookeeper: str, open_session: SessionFactory
) -> None:
    """Nor one of the topic that had the name before."""
    session = await open_session()
    async with term_alone(zookeeper, session, [1, 2, 3], (1, 2), *STAYING) as (term, _):
        whole = await read_survey(term.session, await term.brokers())
        gone = replace(partition(0, (1, 2)), topic="gone")
        earlier = partition(30, (1, 2))
        last = replace(
            whole,
            topics={**whole.topics, "gone": gone.key.topic_id},
            partitions=[*whole.partitions, gone, earlier],
        )
        named = [gone.name, TopicPartition("t", 0)]
        again = await read_survey_again(term.session, await term.brokers(), last, named)
        assert as_facts(again) == as_facts(whole)


async def test_each_lot_of_moves_reads_what_moves_only(zookeeper: str, open_session: SessionFactory) -> None:
    """Broker 1 is emptied of six replicas, two at a time, and the others are read by the first look alone."""
    session = await open_session()
    moving = [(2, 1)] * 6
    async with (
        term_alone(
            zookeeper,
            session,
            [1, 2, 3],
            *(*moving, *STAYING),
            reconcile_ms=600_000,
            reassignments_in_flight_max=2,
        ) as (term, reads),
        asyncio.TaskGroup() as tasks,
    ):
        upkeep = Upkeep(term, Reassignments(term))
        await upkeep.drain(BrokerId(1), DrainBroker(1, replicas=True))
        reads.reads.clear()
        task = tasks.create_task(upkeep.run())

        async def emptied() -> bool:
            for number in range(len(moving)):
                if await reassignment(session, "t", number) is not None:
                    await finish_reassignment(session, "t", number)
            return all(1 not in replicas for replicas in await assignments(session, "t"))

        await eventually(emptied, what="broker 1 has no replica", deadline_s=60)
        assert {reads.reads[path] for path in isrs(range(len(moving), 26))} == {1}
        task.cancel()


async def test_a_leader_that_could_not_hand_over_is_asked_again(
    zookeeper: str, open_session: SessionFactory
) -> None:
    """It took the notice from its queue, and leads on: in ZooKeeper all is as before it was asked."""
    session = await open_session()
    queue = znodes.elections(1)

    async def taken() -> bool:
        notices = await session.children(queue)
        for each in notices:
            await session.delete(f"{queue}/{each}")
        return bool(notices)

    async with (
        term_alone(zookeeper, session, [1, 2], (1, 2), reconcile_ms=600_000) as (term, _),
        asyncio.TaskGroup() as tasks,
    ):
        upkeep = Upkeep(term, Reassignments(term))
        await upkeep.drain(BrokerId(1), DrainBroker(1))
        task = tasks.create_task(upkeep.run())
        for _ in range(2):
            await eventually(taken, what="broker 1 is asked")
        task.cancel()


async def test_a_drain_that_is_asked_for_again_causes_no_further_round(
    zookeeper: str, open_session: SessionFactory
) -> None:
    """The command asks twice a second how far it is. Each answer reads the cluster once if it is small."""
    session = await open_session()
    async with (
        term_alone(zookeeper, session, [1, 2], (1,), reconcile_ms=600_000) as (term, reads),
        asyncio.TaskGroup() as tasks,
    ):
        upkeep = Upkeep(term, Reassignments(term))
        await upkeep.drain(BrokerId(1), DrainBroker(1))
        reads.reads.clear()
        task = tasks.create_task(upkeep.run())

        async def looked() -> bool:
            return reads.reads[znodes.isr("t", 0)] == 1

        await eventually(looked, what="the first round has read the partition")
        asked = [await upkeep.drain(BrokerId(1), DrainBroker(1)) for _ in range(5)]
        assert {(each.leaderships, each.permanent) for each in asked} == {(1, 1)}
        assert reads.reads[znodes.isr("t", 0)] == 1 + len(asked)
        task.cancel()
