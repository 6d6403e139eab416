"""Fetches of Kafka clients that wait at the end of a log, without a task of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from strandline.broker.kafka.handlers.fetching.fetch import FetchApi
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.fetch import FetchAnswer, FetchRequest, PartitionPosition
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.broker.log.reads import POLLED_MAX
from strandline.ids import BrokerId, LeaderEpoch
from strandline.security.access import Access
from strandline.security.authorizer import Authorizer, Rules
from strandline.security.decide import Acls
from strandline.tasks import Slices
from strandline.vocabulary.log import FetchPartition
from tests.broker.kafka.support.asking import called, fetch_api, log_handlers
from tests.broker.kafka.support.fetching import END, EPOCH, LONG_MS, append, leading, may_read
from tests.broker.kafka.support.memory_connection import turns
from tests.broker.support.replicas import NAME
from tests.broker.support.seat import Seat
from tests.waiting import eventually

CALL = called(apis.FETCH, 12)


def poll(
    *offsets: int, wait_ms: int = LONG_MS, bytes_min: int = 1, session: tuple[int, int] = (0, -1)
) -> FetchRequest:
    positions = tuple(PartitionPosition(NAME.partition, -1, offset, 1 << 20) for offset in offsets)
    return FetchRequest(wait_ms, bytes_min, 1 << 20, 0, (OfTopic(NAME.topic, positions),), *session)


@dataclass
class World:
    """A leader whose log ends at `END`, all of it committed."""

    seat: Seat
    api: FetchApi
    authorizer: Authorizer
    ended: list[FetchAnswer | None] = field(default_factory=list)
    listeners: int = 0

    def waits(self, request: FetchRequest) -> bool:
        self.end = self.api.wait(request, CALL, self.ended.append)
        assert (self.end is not None) == (self.api.asked.total > 0)
        return self.end is not None

    @property
    def at_rest(self) -> bool:
        """Nothing of a poll is left."""
        return self.api.asked.total == 0 and len(self.seat.replica._listeners) == self.listeners


@asynccontextmanager
async def a_world(tmp_path: Path, rules: Rules | None = None) -> AsyncIterator[World]:
    async with leading(tmp_path) as seat:
        authorizer = Authorizer(rules)
        handlers = log_handlers(seat, Access(authorizer))
        world = World(seat, fetch_api(handlers), authorizer)
        world.listeners = len(seat.replica._listeners)
        yield world
        assert world.at_rest


async def test_a_poll_without_news_ends_with_its_time_and_costs_no_task(tmp_path: Path) -> None:
    """CORRECTNESS K1: its answer names each partition that it asked for once, and how far it is committed."""
    async with a_world(tmp_path) as world:
        tasks = asyncio.all_tasks()
        assert world.waits(poll(END, END, wait_ms=1))
        assert asyncio.all_tasks() == tasks
        await eventually(lambda: bool(world.ended))
        (answer,) = world.ended
        assert answer is not None and answer.error == 0
        found = answer.topics[0].partitions
        assert [(each.error, each.high_watermark, each.records) for each in found] == [(0, END, b"")]


async def test_a_poll_ends_as_soon_as_a_record_is_committed(tmp_path: Path) -> None:
    """A task reads it then: bytes of records need room in the bounds of answers."""
    async with a_world(tmp_path) as world:
        assert world.waits(poll(END))
        world.seat.replica.announce()
        await turns()
        assert not world.ended, "nothing has come"
        append(world.seat)
        assert not world.ended, "a commit does not wait for its readers"
        await turns()
        assert world.ended == [None]


async def test_a_poll_ends_as_the_leadership_ends(tmp_path: Path) -> None:
    """Its client has to look for the next leader at once."""
    async with a_world(tmp_path) as world:
        assert world.waits(poll(END))
        world.seat.manager.follow(world.seat.replica, BrokerId(1), LeaderEpoch(EPOCH + 1))
        await turns()
        assert world.ended == [None]


async def test_a_right_that_is_revoked_while_a_poll_waits_ends_it_with_a_refusal(tmp_path: Path) -> None:
    """CORRECTNESS A4: a task asks for the right again, and answers with the refusal."""
    binding = may_read(CALL)
    async with a_world(tmp_path, Rules()) as world:
        world.authorizer.take(Acls(1, ()))
        assert not world.waits(poll(END))
        world.authorizer.take(Acls(2, (binding,)))
        assert world.waits(poll(END, wait_ms=1))
        world.authorizer.take(Acls(3, ()))
        await eventually(lambda: bool(world.ended))
        assert world.ended == [None]


async def test_a_change_as_the_time_ends_is_not_missed(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        assert world.waits(poll(END, wait_ms=1))
        append(world.seat)
        await eventually(lambda: bool(world.ended))
        assert world.ended == [None]


class Some:
    """Positions of a session, all of them at the end."""

    closed = False

    def __init__(self) -> None:
        self.due: list[FetchPartition] = []
        self.announce: Callable[[], None] | None = None

    async def settle(self, slices: Slices) -> None:
        return

    def listen(self, listener: Callable[[], None]) -> None:
        self.announce = listener

    def unlisten(self, listener: Callable[[], None]) -> None:
        self.announce = None


@pytest.mark.parametrize(("due", "closed"), [(POLLED_MAX + 1, False), (0, True)])
async def test_a_poll_leaves_many_positions_and_an_ended_session_to_a_task(
    tmp_path: Path, due: int, closed: bool
) -> None:
    """CORRECTNESS X6: a change of ACLs makes all positions of a session due, and the loop goes on."""
    some, ended = Some(), list[bool]()
    async with a_world(tmp_path) as world:
        assert world.api.reads.poll(some, CALL.caller, wait_ms=LONG_MS, ended=ended.append) is not None
        assert some.announce is not None
        some.due, some.closed = [FetchPartition(NAME, END, -1, 1 << 20)] * due, closed
        some.announce()
        await turns()
        assert ended == [True] and some.announce is None
        assert world.api.reads.poll(some, CALL.caller, wait_ms=LONG_MS, ended=ended.append) is None
        await world.api.reads.fetchable(
            some, CALL.caller, wait_ms=0 if due else LONG_MS, bytes_min=1, bytes_max=1 << 20
        )


async def test_a_poll_that_is_ended_answers_nothing(tmp_path: Path) -> None:
    """CORRECTNESS X6: a connection that ends leaves nothing behind, also between a record and its poll."""
    async with a_world(tmp_path) as world:
        assert world.waits(poll(END))
        append(world.seat)
        assert world.end is not None
        world.end()
        assert world.at_rest
        await turns()
        assert not world.ended


@pytest.mark.parametrize(
    "request_",
    [
        poll(0),
        poll(END, 0),
        poll(END + 1),
        poll(END, wait_ms=0),
        poll(END, bytes_min=0),
        poll(END, bytes_min=2),
        poll(END, session=(0, 0)),
        poll(END, session=(7, 1)),
    ],
)
async def test_other_fetches_have_a_task(tmp_path: Path, request_: FetchRequest) -> None:
    """What is there, or wrong, is answered at once; many bytes take time to look at."""
    async with a_world(tmp_path) as world:
        assert not world.waits(request_)
        await turns()
        assert not world.ended
