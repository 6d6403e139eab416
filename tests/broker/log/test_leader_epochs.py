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
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from strandline.ids import NO_TOPIC_ID, BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from strandline.vocabulary.log import (
    EARLIEST,
    EpochQuery,
    Fetched,
    FetchPartition,
    ListedEpochEnd,
    OffsetQuery,
    ProduceEntry,
)
from strandline.vocabulary.log_position import EpochEnd
from tests.broker.support.access import CALLER, OPEN
from tests.broker.support.replicas import CLOCK, KEY, NAME, batch, settings, write
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
    return Handlers(
        seat.manager, view, settings(), CLOCK, lambda: True, ProducerIds(lambda: None, Random(0)), OPEN
    )


async def end_of(handlers: Handlers, epoch: int, *, leader_epoch: int = -1) -> ListedEpochEnd:
    (found,) = await handlers.epoch_ends([EpochQuery(NAME, epoch, leader_epoch)], CALLER)
    return found


def ended(epoch: int, end: int) -> ListedEpochEnd:
    return ListedEpochEnd(NAME, None, epoch, end, KEY.topic_id)


@pytest.mark.parametrize(
    ("asked", "epoch", "end"),
    [(1, 1, 0), (2, 2, 2), (3, 2, 2), (4, 4, 5), (8, 4, 5), (9, 9, 6), (10, -1, -1), (-1, -1, -1)],
)
async def test_an_epoch_ends_where_the_next_one_began(
    seat: Seat, handlers: Handlers, asked: int, epoch: int, end: int
) -> None:
    """CORRECTNESS T3, T9: the largest epoch not above the one asked for; none for one that is not known."""
    seat.commit(6)
    assert await end_of(handlers, asked) == ended(epoch, end)


async def test_an_end_is_never_above_the_high_watermark(seat: Seat, handlers: Handlers) -> None:
    """CORRECTNESS H8: what follows may still be truncated, so no client has read it."""
    seat.commit(5)
    assert seat.replica.high_watermark == 5
    assert await end_of(handlers, EPOCH) == ended(EPOCH, 5)


async def test_an_end_that_may_be_committed_is_not_lowered_while_the_watermark_is_unknown(
    seat: Seat, handlers: Handlers
) -> None:
    """CORRECTNESS H1: a client that has read up to 5 would believe that records were lost."""
    assert await end_of(handlers, 2) == ended(2, 2)
    for epoch in (4, EPOCH):
        assert isinstance((await end_of(handlers, epoch)).error, OffsetNotAvailable)
    seat.commit(5)
    assert await end_of(handlers, 4) == ended(4, 5)


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
        (listed,) = await handlers.list_offsets(asked, CALLER, {NAME: leader_epoch})
        assert isinstance(listed.error, expected)


async def test_only_the_leader_answers(seat: Seat, handlers: Handlers) -> None:
    """CORRECTNESS T3: a follower's list of epochs may be of a log that will be truncated."""
    seat.commit(6)
    seat.manager.follow(seat.replica, BrokerId(3), LeaderEpoch(EPOCH + 1))
    nowhere = TopicPartition("nowhere", 0)
    found = await handlers.epoch_ends([EpochQuery(NAME, 4), EpochQuery(nowhere, 4)], CALLER)
    assert [each.name for each in found] == [NAME, nowhere]
    assert isinstance(found[0].error, NotLeaderOrFollower)
    assert isinstance(found[1].error, UnknownTopicOrPartition)
    assert [(each.epoch, each.end_offset) for each in found] == [(-1, -1)] * 2


# --- positions of a fetch -----------------------------------------------------------------------

OTHER = TopicId("f" * 32)


async def fetched(
    handlers: Handlers, offset: int, last_epoch: int, topic_id: TopicId = KEY.topic_id
) -> Fetched:
    wanted = FetchPartition(NAME, offset, EPOCH, 1 << 20, topic_id, last_epoch)
    await handlers.reads.fetchable(
        handlers.reads.fixed([wanted]), CALLER, wait_ms=60_000, bytes_min=1, bytes_max=1 << 20
    )
    (found,) = await handlers.reads.read([wanted], 1 << 20, CALLER)
    return found


@pytest.mark.parametrize(("offset", "last_epoch"), [(0, -1), (1, 2), (2, 2), (5, 4), (4, 4), (3, -1)])
async def test_a_position_after_a_record_of_the_log_is_read(
    seat: Seat, handlers: Handlers, offset: int, last_epoch: int
) -> None:
    """KIP-320: the epoch of the record before it is the one that the log has there."""
    seat.commit(6)
    found = await fetched(handlers, offset, last_epoch)
    assert found.error is None and found.diverging is None
    assert found.records


@pytest.mark.parametrize(("asked", "told"), [(KEY.topic_id, NO_TOPIC_ID), (NO_TOPIC_ID, KEY.topic_id)])
async def test_a_reader_that_does_not_name_the_topics_id_learns_it(
    seat: Seat, handlers: Handlers, asked: TopicId, told: TopicId
) -> None:
    """One that names it is refused by another topic, so no answer repeats it."""
    seat.commit(6)
    assert (await fetched(handlers, 0, -1, asked)).topic_id == told


@pytest.mark.parametrize(
    ("offset", "last_epoch", "end"),
    [
        (3, 2, EpochEnd(2, 2)),
        (6, 4, EpochEnd(4, 5)),
        (900, 4, EpochEnd(4, 5)),
        (3, 3, EpochEnd(2, 2)),
        (6, 8, EpochEnd(4, 5)),
        (1, 1, EpochEnd(1, 0)),
    ],
)
async def test_a_position_after_a_record_that_the_log_has_lost_diverges_at_once(
    seat: Seat, handlers: Handlers, offset: int, last_epoch: int, end: EpochEnd
) -> None:
    """KIP-320: also if the log has grown beyond the position since; the long poll does not wait for records
    there."""
    seat.commit(6)
    found = await fetched(handlers, offset, last_epoch)
    assert (found.error, found.records, found.diverging) == (None, b"", end)


async def test_an_end_is_not_told_before_it_is_known_to_be_committed(seat: Seat, handlers: Handlers) -> None:
    """CORRECTNESS H1: the client would go back further than it has to."""
    assert isinstance((await fetched(handlers, 6, 4)).error, OffsetNotAvailable)
    assert (await fetched(handlers, 3, 2)).diverging == EpochEnd(2, 2)


async def test_an_epoch_from_the_future_is_refused_by_name(seat: Seat, handlers: Handlers) -> None:
    seat.commit(6)
    found = await fetched(handlers, 6, EPOCH + 1)
    assert isinstance(found.error, UnknownLeaderEpoch)
    assert str(NAME) in found.error.message and str(EPOCH + 1) in found.error.message


async def test_another_incarnation_of_the_topic_is_refused_with_both_ids(
    seat: Seat, handlers: Handlers
) -> None:
    """KIP-516: an offset or a batch that is meant for a topic which was made anew never meets the new log."""
    seat.commit(6)
    done: list[object] = []
    handlers.produce(ProduceEntry(NAME, batch("6"), topic_id=OTHER), done.append, CALLER)
    (listed,) = await handlers.list_offsets([OffsetQuery(NAME, EARLIEST, OTHER)], CALLER)
    (asked,) = await handlers.epoch_ends([EpochQuery(NAME, 4, topic_id=OTHER)], CALLER)
    for error in (*done, listed.error, asked.error, (await fetched(handlers, 2, 2, OTHER)).error):
        assert isinstance(error, UnknownTopicId)
        assert OTHER in error.message and KEY.topic_id in error.message
    assert seat.replica.log.log_end_offset == 6
