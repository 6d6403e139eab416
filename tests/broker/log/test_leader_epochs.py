"""Where an epoch ended, as a client asks it to find out whether the log was truncated below its position."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from strandline.broker.log.handlers import Handlers
from strandline.broker.log.producer_ids import ProducerIds
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.errors import (
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    StrandlineError,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from strandline.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from strandline.vocabulary.log import EARLIEST, EpochQuery, ListedEpochEnd, OffsetQuery
from tests.broker.support.replicas import CLOCK, NAME, batch, settings, write
from tests.broker.support.seat import Seat, seated

EPOCH = 9


@pytest.fixture
async def seat(tmp_path: Path) -> AsyncIterator[Seat]:
    """Broker 2 leads in epoch 9. Its log has offsets 0 and 1 of epoch 2, 2 to 4 of epoch 4, 5 of epoch 9; it
    knows that what is below 3 is committed, and does not know the HW."""
    async with seated(tmp_path) as found:
        write(found.replica, 2, "0", "1")
        write(found.replica, 4, "2", "3", "4")
        found.replica.raise_watermark(Offset(3))
        found.lead(EPOCH)
        leadership = found.replica.leadership
        assert leadership is not None
        leadership.produce(batch("5"), acks=1, timeout_ms=60_000, done=lambda outcome: None)
        yield found


@pytest.fixture
def handlers(seat: Seat) -> Handlers:
    view = ClusterView(seat.manager, seat.manager.settings, CLOCK)
    return Handlers(seat.manager, view, settings(), CLOCK, lambda: True, ProducerIds(lambda: None, Random(0)))


async def end_of(handlers: Handlers, epoch: int, *, leader_epoch: int = -1) -> ListedEpochEnd:
    (found,) = await handlers.epoch_ends([EpochQuery(NAME, epoch, leader_epoch)])
    return found


@pytest.mark.parametrize(
    ("asked", "epoch", "end"),
    [(1, 1, 0), (2, 2, 2), (3, 2, 2), (4, 4, 5), (8, 4, 5), (9, 9, 6), (10, -1, -1), (-1, -1, -1)],
)
async def test_an_epoch_ends_where_the_next_one_began(
    seat: Seat, handlers: Handlers, asked: int, epoch: int, end: int
) -> None:
    """CORRECTNESS T3, T9: the largest epoch not above the one asked for; none for one that is not known."""
    seat.commit(6)
    assert await end_of(handlers, asked) == ListedEpochEnd(NAME, None, epoch, end)


async def test_an_end_is_never_above_the_high_watermark(seat: Seat, handlers: Handlers) -> None:
    """CORRECTNESS H8: what follows may still be truncated, so no client has read it."""
    seat.commit(5)
    assert seat.replica.high_watermark == 5
    assert await end_of(handlers, EPOCH) == ListedEpochEnd(NAME, None, EPOCH, 5)


async def test_an_end_that_may_be_committed_is_not_lowered_while_the_watermark_is_unknown(
    seat: Seat, handlers: Handlers
) -> None:
    """CORRECTNESS H1: a client that has read up to 5 would believe that records were lost."""
    assert await end_of(handlers, 2) == ListedEpochEnd(NAME, None, 2, 2)
    for epoch in (4, EPOCH):
        assert isinstance((await end_of(handlers, epoch)).error, OffsetNotAvailable)
    seat.commit(5)
    assert await end_of(handlers, 4) == ListedEpochEnd(NAME, None, 4, 5)


@pytest.mark.parametrize(("known", "error"), [(8, FencedLeaderEpoch), (10, UnknownLeaderEpoch)])
async def test_a_client_that_knows_another_current_epoch_is_refused(
    seat: Seat, handlers: Handlers, known: int, error: type[StrandlineError]
) -> None:
    """CORRECTNESS T6: it asks a deposed leader, or one that has not heard of its election; ListOffsets
    compares the epoch too."""
    seat.commit(6)
    assert isinstance((await end_of(handlers, 2, leader_epoch=known)).error, error)
    assert (await end_of(handlers, 2, leader_epoch=EPOCH)).error is None
    for leader_epoch, expected in ((known, error), (EPOCH, type(None)), (-1, type(None))):
        asked = [OffsetQuery(NAME, EARLIEST)]
        (listed,) = await handlers.list_offsets(asked, {NAME: leader_epoch})
        assert isinstance(listed.error, expected)


async def test_only_the_leader_answers(seat: Seat, handlers: Handlers) -> None:
    """CORRECTNESS T3: a follower's list of epochs may be of a log that will be truncated."""
    seat.commit(6)
    seat.manager.follow(seat.replica, BrokerId(3), LeaderEpoch(EPOCH + 1))
    nowhere = TopicPartition("nowhere", 0)
    found = await handlers.epoch_ends([EpochQuery(NAME, 4), EpochQuery(nowhere, 4)])
    assert [each.name for each in found] == [NAME, nowhere]
    assert isinstance(found[0].error, NotLeaderOrFollower)
    assert isinstance(found[1].error, UnknownTopicOrPartition)
    assert [(each.epoch, each.end_offset) for each in found] == [(-1, -1)] * 2
