"""The bounds of a fetch answer, and what it says of partitions that find no room in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from strandline.broker.log.handlers import Handlers
from strandline.broker.log.producer_ids import ProducerIds
from strandline.broker.log.reads import answer_bytes
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.errors import FencedLeaderEpoch, OffsetOutOfRange, UnknownTopicOrPartition
from strandline.ids import TopicPartition
from strandline.vocabulary.log import Fetched, FetchPartition
from tests.broker.support.access import CALLER, OPEN
from tests.broker.support.replicas import CLOCK, NAME, batch, settings, write
from tests.broker.support.seat import seated

EPOCH = 5
VALUES = ("a" * 600, "b" * 400, "c" * 200, "d" * 10)
"""One batch each."""
SIZES = [len(batch(value)) for value in VALUES]
END = len(VALUES)


@pytest.fixture
async def handlers(tmp_path: Path) -> AsyncIterator[Handlers]:
    """Broker 2 leads, and everything is committed."""
    async with seated(tmp_path) as seat:
        write(seat.replica, 4, *VALUES)
        seat.lead(EPOCH)
        seat.commit(END)
        view = ClusterView(seat.manager, seat.manager.settings, CLOCK)
        ids = ProducerIds(lambda: None, Random(0))
        yield Handlers(seat.manager, view, settings(), CLOCK, lambda: True, ids, OPEN)


def at(offset: int, *, epoch: int = EPOCH, bytes_max: int = 1 << 20) -> FetchPartition:
    return FetchPartition(NAME, offset, epoch, bytes_max)


def sizes(found: list[Fetched]) -> list[int]:
    return [len(fetched.records) for fetched in found]


async def test_every_partition_is_answered_when_no_room_is_left(handlers: Handlers) -> None:
    """Java's consumer drops a whole answer that lacks a partition which it asked for."""
    nowhere = TopicPartition("nowhere", 0)
    wanted = [
        at(0),
        at(1),
        at(END),
        at(END + 1),
        at(0, epoch=EPOCH - 1),
        FetchPartition(nowhere, 0, -1, 1 << 20),
    ]
    found = await handlers.reads.read(wanted, SIZES[0], CALLER)
    assert [fetched.name for fetched in found] == [*[NAME] * 5, nowhere]
    assert sizes(found) == [SIZES[0], 0, 0, 0, 0, 0]
    errors = [None if fetched.error is None else type(fetched.error) for fetched in found]
    assert errors == [None, None, None, OffsetOutOfRange, FencedLeaderEpoch, UnknownTopicOrPartition]
    for fetched in found[:3]:
        assert (fetched.high_watermark, fetched.log_start_offset, fetched.leader_epoch) == (END, 0, EPOCH)


async def test_only_the_first_batch_of_an_answer_may_be_larger_than_its_bound(handlers: Handlers) -> None:
    """A batch that does not fit is left out, and smaller ones behind it are not."""
    assert sizes(await handlers.reads.read([at(0), at(2)], 1, CALLER)) == [SIZES[0], 0]
    room = SIZES[0] + SIZES[2]
    assert sizes(await handlers.reads.read([at(0, bytes_max=1), at(1), at(2), at(3)], room, CALLER)) == [
        SIZES[0],
        0,
        SIZES[2],
        0,
    ]


async def test_a_batch_larger_than_its_partitions_bound_is_answered_if_there_is_room(
    handlers: Handlers,
) -> None:
    """No partition is stuck at a batch that exceeds what the client wants of a partition."""
    assert (
        sizes(await handlers.reads.read([at(0, bytes_max=1), at(1, bytes_max=1)], 1 << 20, CALLER))
        == SIZES[:2]
    )


@pytest.mark.parametrize(("bytes_max", "bound"), [(1 << 20, SIZES[0]), (SIZES[0], 1 << 20)])
async def test_an_answer_keeps_the_bound_of_the_client_and_that_of_the_listener(
    handlers: Handlers, bytes_max: int, bound: int
) -> None:
    """The smaller one decides; each listener has its own, and a wait for more than fits ends."""
    assert sizes(await handlers.reads.read([at(0)], bytes_max, CALLER, bound=bound)) == SIZES[:1]
    waited = handlers.reads.fetchable(
        handlers.reads.fixed([at(0)]),
        CALLER,
        wait_ms=60_000,
        bytes_min=sum(SIZES),
        bytes_max=bytes_max,
        bound=bound,
    )
    await asyncio.wait_for(waited, 10)
    assert sizes(await handlers.reads.read([at(0)], 1 << 20, CALLER, bound=1 << 20)) == [sum(SIZES)]


def test_by_default_an_answer_has_at_most_what_a_message_of_a_stream_has() -> None:
    """Larger messages halve the rate of gRPC."""
    assert answer_bytes(1 << 30) == RECORDS_BYTES_MAX
    assert answer_bytes(1 << 30, 8 << 20) == 8 << 20
    assert answer_bytes(0) == 1
