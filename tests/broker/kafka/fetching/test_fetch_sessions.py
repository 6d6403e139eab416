"""Fetch sessions at a broker (KIP-227): a request goes on with what its client said before."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import KafkaCode
from strandline.broker.kafka.handlers.fetching.fetch import FetchApi
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.fetch import FetchAnswer, FetchRequest, PartitionPosition
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.broker.log.reads import POLLED_MAX
from strandline.errors import ErrorCode
from strandline.ids import BrokerId, LeaderEpoch, PartitionKey, TopicId
from strandline.security.access import Access
from strandline.security.authorizer import Authorizer, Rules
from strandline.security.decide import Acls
from strandline.security.principal import Principal
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.kafka.support.asking import called, fetch_api, log_handlers
from tests.broker.kafka.support.fetching import END, EPOCH, LONG_MS, append, leading, may_read
from tests.broker.kafka.support.memory_connection import turns
from tests.broker.support.replicas import KEY, NAME
from tests.broker.support.seat import Seat
from tests.waiting import eventually

CALL = called(apis.FETCH, 12)
BY_ID = called(apis.FETCH, 18)
MISSING = 7


class World:
    """A leader whose log ends at `END`, all of it committed."""

    def __init__(self, seat: Seat, api: FetchApi, authorizer: Authorizer) -> None:
        self.seat = seat
        self.api = api
        self.authorizer = authorizer
        self.session_id = 0

    async def ask(
        self, epoch: int, *positions: tuple[int, int], call: Call = CALL, **more: Any
    ) -> FetchAnswer:
        """Positions are (partition, offset)."""
        answer = await self.again(self.request(epoch, *positions, call=call, **more), replace(call))
        self.session_id = self.session_id or answer.session_id
        return answer

    def waits(self, request: FetchRequest, ended: list[FetchAnswer | None]) -> Call:
        """The call of this request, which waits without a task."""
        call = replace(CALL)
        assert self.api.wait(request, call, ended.append) is not None
        return call

    async def again(self, request: FetchRequest, call: Call) -> FetchAnswer:
        """The answer to this request, which may have waited without a task before."""
        answers: list[FetchAnswer] = []

        async def reply(answer: FetchAnswer) -> None:
            answers.append(answer)

        await self.api.handle(request, call, reply)
        (answer,) = answers
        return answer

    def request(
        self,
        epoch: int,
        *positions: tuple[int, int],
        call: Call = CALL,
        forget: tuple[int, ...] = (),
        wait_ms: int = 0,
        topic_id: TopicId = KEY.topic_id,
    ) -> FetchRequest:
        name, topic_id = ("", topic_id) if call.version == BY_ID.version else (NAME.topic, TopicId(""))
        asked = tuple(PartitionPosition(number, -1, offset, 1 << 20) for number, offset in positions)
        topics = (OfTopic(name, asked, topic_id),) if asked else ()
        forgotten = (OfTopic(name, forget, topic_id),) if forget else ()
        return FetchRequest(wait_ms, 1, 1 << 20, 0, topics, self.session_id, epoch, forgotten)

    @property
    def watched(self) -> bool:
        """Whether the partition is at rest in a session."""
        return any("_Watch" in repr(each) for each in self.seat.replica._listeners)


@asynccontextmanager
async def a_world(tmp_path: Path, rules: Rules | None = None) -> AsyncIterator[World]:
    async with leading(tmp_path) as seat:
        authorizer = Authorizer(rules)
        yield World(seat, fetch_api(log_handlers(seat, Access(authorizer))), authorizer)


def shown(answer: FetchAnswer) -> list[tuple[int, int, int, bool]]:
    """(partition, error, high watermark, whether there are records)"""
    return [
        (each.partition, each.error, each.high_watermark, bool(each.records))
        for topic in answer.topics
        for each in topic.partitions
    ]


async def test_an_answer_within_a_session_has_what_changed(tmp_path: Path) -> None:
    """A partition with an error is in each answer, as in Kafka's."""
    missing = (MISSING, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), -1, False)
    async with a_world(tmp_path) as world:
        assert shown(await world.ask(0, (0, END), (MISSING, 0))) == [(0, 0, END, False), missing]
        assert shown(await world.ask(1)) == [missing]
        assert shown(await world.ask(2, forget=(MISSING,))) == []
        append(world.seat)
        assert shown(await world.ask(3)) == [(0, 0, END + 1, True)]
        assert shown(await world.ask(4, (0, END + 1))) == []


async def test_a_session_is_known_by_its_id_its_epoch_and_its_principal(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        await world.ask(0, (0, END))
        other = replace(CALL, caller=replace(CALL.caller, principal=Principal("other")))
        errors = [
            (await world.ask(1, call=other)).error,
            (await world.ask(2)).error,
            (await world.ask(1, call=BY_ID)).error,
            (await world.ask(1)).error,
            (await world.ask(1)).error,
        ]
        assert errors == [
            KafkaCode.FETCH_SESSION_ID_NOT_FOUND,
            KafkaCode.INVALID_FETCH_SESSION_EPOCH,
            KafkaCode.FETCH_SESSION_TOPIC_ID_ERROR,
            0,
            KafkaCode.INVALID_FETCH_SESSION_EPOCH,
        ]


async def test_a_whole_request_ends_the_session_that_it_names(tmp_path: Path) -> None:
    """With epoch 0 another one begins. So does one whose client forgets all of its partitions end."""
    async with a_world(tmp_path) as world:
        first = (await world.ask(0, (0, END))).session_id
        second = (await world.ask(0, (0, END))).session_id
        assert first and second and first != second
        assert (await world.ask(1)).error == KafkaCode.FETCH_SESSION_ID_NOT_FOUND
        world.session_id = second
        assert (await world.ask(1, forget=(0,))).session_id == 0
        assert (await world.ask(2)).error == KafkaCode.FETCH_SESSION_ID_NOT_FOUND
        world.session_id = 0
        await world.ask(0, (0, END))
        assert (await world.ask(-1, (0, END))).session_id == 0
        assert (await world.ask(1)).error == KafkaCode.FETCH_SESSION_ID_NOT_FOUND
        assert world.api._sessions._traffic.fetch_sessions == 0 and not world.watched


async def test_a_poll_of_a_session_waits_without_a_task_until_something_is_due(tmp_path: Path) -> None:
    """CORRECTNESS K1: the partition rests meanwhile, and wakes at a commit and at a change of leaders."""
    ended: list[FetchAnswer | None] = []
    async with a_world(tmp_path) as world:
        await world.ask(0, (0, END))
        quiet = world.request(1, wait_ms=1)
        world.waits(quiet, ended)
        assert world.watched
        await eventually(lambda: bool(ended))
        assert ended.pop() == FetchAnswer((), session_id=world.session_id)
        request = world.request(2, wait_ms=LONG_MS)
        call = world.waits(request, ended)
        append(world.seat)
        assert not world.watched
        await turns()
        assert ended == [None], "a task reads: records need room in the bounds of answers"
        assert shown(await world.again(request, call)) == [(0, 0, END + 1, True)]
        await world.ask(3, (0, END + 1))
        request = world.request(4, wait_ms=LONG_MS)
        call = world.waits(request, ended)
        world.seat.manager.follow(world.seat.replica, BrokerId(1), LeaderEpoch(EPOCH + 1))
        await turns()
        assert shown(await world.again(request, call)) == [
            (0, int(ErrorCode.NOT_LEADER_OR_FOLLOWER), -1, False)
        ]


async def test_a_request_that_another_one_overtook_gets_no_records(tmp_path: Path) -> None:
    """What it reads may be of earlier positions than those of the other one."""
    ended: list[FetchAnswer | None] = []
    async with a_world(tmp_path) as world:
        await world.ask(0, (0, END))
        first = world.request(1, wait_ms=LONG_MS)
        call = world.waits(first, ended)
        assert (await world.ask(2)).error == 0
        append(world.seat)
        await turns()
        assert ended == [None]
        assert (await world.again(first, call)).error == KafkaCode.INVALID_FETCH_SESSION_EPOCH


async def test_a_session_that_ends_leaves_nothing_behind(tmp_path: Path) -> None:
    """CORRECTNESS X6: also if a request of it waits, and looks once more."""
    ended: list[FetchAnswer | None] = []
    async with a_world(tmp_path) as world:
        await world.ask(0, (0, END))
        before = len(world.seat.replica._listeners)
        waiting = world.request(1, wait_ms=LONG_MS)
        call = world.waits(waiting, ended)
        assert len(world.seat.replica._listeners) == before + 1
        await world.ask(-1, (0, END))
        await eventually(lambda: bool(ended))
        assert ended == [None], "at once"
        assert (await world.again(waiting, call)).error == KafkaCode.FETCH_SESSION_ID_NOT_FOUND
        assert len(world.seat.replica._listeners) == before


class Rack(str):
    """One that can be referred to weakly, as no tuple can."""


async def test_a_session_keeps_no_request(tmp_path: Path) -> None:
    """CORRECTNESS X6: a position may be repeated in it many times."""
    async with a_world(tmp_path) as world:
        await world.ask(0, (0, END))
        rack = Rack("r")
        kept = weakref.ref(rack)
        assert (await world.again(world.request(1, (0, END))._replace(rack=rack), replace(CALL))).error == 0
        del rack
        assert kept() is None


async def test_what_a_request_within_a_session_names_counts_while_it_waits(tmp_path: Path) -> None:
    """CORRECTNESS X6: with more of it than a poll may keep, a task waits."""
    ended: list[FetchAnswer | None] = []
    async with a_world(tmp_path) as world:
        await world.ask(0, (0, END))
        forgotten = (MISSING,) * (POLLED_MAX - 1)
        world.waits(world.request(1, (0, END), forget=forgotten, wait_ms=1), ended)
        assert world.api.asked.total == POLLED_MAX
        await eventually(lambda: bool(ended))
        assert world.api.asked.total == 0
        many = world.request(2, (0, END), forget=(*forgotten, MISSING), wait_ms=LONG_MS)
        assert world.api.wait(many, replace(CALL), ended.append) is None


async def test_a_right_that_ends_is_noticed_by_a_partition_at_rest(tmp_path: Path) -> None:
    """CORRECTNESS A4: also while a poll waits."""
    binding = may_read(CALL)
    refused = [(0, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), -1, False)]
    ended: list[FetchAnswer | None] = []
    async with a_world(tmp_path, Rules()) as world:
        world.authorizer.take(Acls(1, (binding,)))
        await world.ask(0, (0, END))
        request = world.request(1, wait_ms=1)
        call = world.waits(request, ended)
        assert world.watched
        world.authorizer.take(Acls(2, ()))
        await eventually(lambda: bool(ended))
        assert ended == [None] and shown(await world.again(request, call)) == refused
        assert shown(await world.ask(2, wait_ms=LONG_MS)) == refused
        world.authorizer.take(Acls(3, (binding,)))
        assert shown(await world.ask(3)) == [(0, 0, END, False)]
        assert shown(await world.ask(4)) == []


async def test_a_topic_that_is_replaced_is_not_read_by_its_id(tmp_path: Path) -> None:
    """CORRECTNESS K1: an id that was never known is UNKNOWN_TOPIC_ID, one that the session knew is
    INCONSISTENT_TOPIC_ID, as Kafka answers."""
    new = TopicId("f" * 32)
    async with a_world(tmp_path) as world:
        assert shown(await world.ask(0, (0, 0), call=BY_ID)) == [(0, 0, END, True)]
        assert shown(await world.ask(1, (0, END), call=BY_ID)) == []
        assert shown(await world.ask(2, (0, 0), call=BY_ID, topic_id=new)) == [
            (0, int(ErrorCode.UNKNOWN_TOPIC_ID), -1, False)
        ]
        manager = world.seat.manager
        manager.delete(world.seat.replica)
        world.seat.replica = manager.create(NAME, PartitionKey(new, KEY.partition), TopicConfig())
        world.seat.lead(EPOCH + 1)
        answer = await world.ask(3, call=BY_ID)
        found = {topic.topic_id: each.error for topic in answer.topics for each in topic.partitions}
        assert found == {KEY.topic_id: KafkaCode.INCONSISTENT_TOPIC_ID, new: 0}


async def test_deleted_records_are_told_to_a_session(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        await world.ask(0, (0, END))
        assert shown(await world.ask(1)) == []
        world.seat.replica.log.cutting.advance_start(END, as_leader=True)
        world.seat.replica.announce()
        answer = await world.ask(2)
        found = [(each.error, each.log_start_offset) for topic in answer.topics for each in topic.partitions]
        assert found == [(0, END)]
