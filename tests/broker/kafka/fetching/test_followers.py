"""Reading from followers (KIP-392): a leader sends a client to one in its rack, and that one serves what it
knows to be committed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from strandline.broker.kafka.handlers.fetching.preferred import PreferredReplicas
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.fetch import FetchAnswer, FetchedPartition, FetchRequest, PartitionPosition
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.errors import ErrorCode
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicPartition
from strandline.ports import Listener
from strandline.records.header import iterate
from strandline.vocabulary.metadata import Endpoint, Registration
from tests.broker.kafka.support.asking import NO_FOLLOWERS, called, fetch_api, log_handlers
from tests.broker.kafka.support.memory_connection import turns
from tests.broker.support.replicas import NAME, write
from tests.broker.support.seat import ME, Seat, seated
from tests.waiting import eventually

CALL = called(apis.FETCH, 12)
EPOCH = 5
LONG_MS = 20_000
OWN = Endpoint(2, "h", 1, "here", kafka=("h", 9094))


def registered(*endpoints: Endpoint) -> Mapping[BrokerId, Registration]:
    return {
        BrokerId(each.id): Registration(each, BrokerEpoch(each.id * 10), follower_fetch=True)
        for each in endpoints
    }


LIVE = registered(
    Endpoint(1, "h", 1, "there", kafka=("h", 9093)),
    OWN,
    Endpoint(3, "h", 1, "there", kafka=("h", 9095)),
    Endpoint(4, "h", 1, "there", kafka=("h", 9096)),
    Endpoint(5, "h", 1, "without a port"),
)


OLDER = Registration(Endpoint(6, "h", 1, "upgraded last", kafka=("h", 9097)), BrokerEpoch(60))
"""Of an earlier version: its followers refuse clients."""


def preferring(*in_sync: int, suspected: tuple[int, ...] = ()) -> PreferredReplicas:
    return PreferredReplicas(
        lambda name: tuple(map(BrokerId, in_sync)),
        lambda: {**LIVE, OLDER.id: OLDER},
        lambda: tuple(map(BrokerId, suspected)),
        OWN,
    )


@pytest.mark.parametrize(
    ("rack", "in_sync", "suspected", "chosen"),
    [
        ("there", (1, 2, 3), (), {1, 3}),
        ("there", (2, 3), (), {3}),
        ("there", (1, 2, 3), (1,), {3}),
        ("there", (), (), {NO_BROKER}),
        ("here", (1, 2, 3), (), {NO_BROKER}),
        ("elsewhere", (1, 2, 3), (), {NO_BROKER}),
        ("without a port", (2, 5), (), {NO_BROKER}),
        ("upgraded last", (2, 6), (), {NO_BROKER}),
        ("", (1, 2, 3), (), {NO_BROKER}),
    ],
)
def test_a_leader_prefers_a_replica_in_sync_in_the_rack_of_the_client(
    rack: str, in_sync: tuple[int, ...], suspected: tuple[int, ...], chosen: set[int]
) -> None:
    """Several share the partitions. It serves clients of its own rack, and those of racks without any."""
    choice = preferring(*in_sync, suspected=suspected)
    found = {choice.of(TopicPartition("t", each), rack, Listener.INTERNAL) for each in range(4)}
    assert found == chosen


def request(offset: int, *, rack: str = "there", epoch: int = -1, wait_ms: int = 0) -> FetchRequest:
    position = PartitionPosition(NAME.partition, epoch, offset, 1 << 20)
    return FetchRequest(wait_ms, 1, 1 << 20, 0, (OfTopic(NAME.topic, (position,)),), rack=rack)


async def fetched(
    seat: Seat, asked: FetchRequest, preferred: PreferredReplicas = NO_FOLLOWERS
) -> FetchedPartition:
    answers: list[FetchAnswer] = []

    async def reply(answer: FetchAnswer) -> None:
        answers.append(answer)

    await fetch_api(log_handlers(seat), preferred=preferred).handle(asked, CALL, reply)
    ((found,),) = [topic.partitions for topic in answers[0].topics]
    return found


def offsets(found: FetchedPartition) -> list[int]:
    """Of its records: each has a batch of its own."""
    return [batch.last_offset for batch in iterate(found.records)]


@pytest.fixture
async def seat(tmp_path: Path) -> AsyncIterator[Seat]:
    """It has three records, two of them committed as far as it knows."""
    async with seated(tmp_path) as found:
        write(found.replica, 4, "a", "b", "c")
        found.replica.raise_watermark(Offset(2))
        yield found


def follow(seat: Seat) -> None:
    seat.manager.follow(seat.replica, BrokerId(1), LeaderEpoch(EPOCH))


async def test_a_leader_sends_a_client_to_the_follower_at_once(seat: Seat) -> None:
    """Without records, also from the end of the log. A wrong position is the leader's to refuse."""
    seat.lead(EPOCH)
    seat.commit(3)
    for offset in (0, 3):
        found = await fetched(seat, request(offset, wait_ms=LONG_MS), preferring(1, 2))
        assert (found.error, found.preferred, found.records) == (0, 1, b"")
    assert seat.replica.counts.bytes_out == 0, "nothing is read that is not sent"
    found = await fetched(seat, request(0, rack=""), preferring(1, 2))
    assert (found.preferred, bool(found.records)) == (NO_BROKER, True)
    assert (await fetched(seat, request(0, epoch=EPOCH - 1), preferring(1, 2))).preferred == NO_BROKER


async def test_a_follower_serves_what_it_knows_to_be_committed(seat: Seat) -> None:
    """CORRECTNESS H1: never a record above its HW, which is no higher than the leader's."""
    follow(seat)
    found = await fetched(seat, request(0))
    assert (found.error, found.high_watermark) == (0, 2)
    assert offsets(found) == [0, 1]
    at_end = await fetched(seat, request(2))
    assert (at_end.error, at_end.high_watermark, at_end.records) == (0, 2, b"")


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (request(4), ErrorCode.OFFSET_NOT_AVAILABLE),
        (request(0, rack=""), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (request(0, epoch=EPOCH - 1), ErrorCode.FENCED_LEADER_EPOCH),
        (request(0, epoch=EPOCH + 1), ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
async def test_what_a_follower_does_not_serve_is_for_the_leader(
    seat: Seat, asked: FetchRequest, error: ErrorCode
) -> None:
    """A client never takes a follower's end for the end of the log: it would begin anew elsewhere."""
    follow(seat)
    assert (await fetched(seat, asked)).error == error


async def test_a_position_that_a_follower_has_deleted_is_for_the_leader(seat: Seat) -> None:
    follow(seat)
    seat.replica.log.cutting.advance_start(1)
    assert (await fetched(seat, request(0))).error == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_replica_that_knows_no_leader_serves_nobody(seat: Seat) -> None:
    """It may be out of sync for days."""
    assert seat.replica.leader == NO_BROKER != ME
    assert (await fetched(seat, request(0))).error == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_poll_at_a_follower_ends_as_its_watermark_rises(seat: Seat) -> None:
    follow(seat)
    ended: list[FetchAnswer | None] = []
    api = fetch_api(log_handlers(seat))
    assert api.wait(request(2, wait_ms=LONG_MS), CALL, ended.append) is not None
    seat.replica.raise_watermark(Offset(3))
    await turns()
    await eventually(lambda: bool(ended))
    assert ended == [None]
    assert offsets(await fetched(seat, request(2))) == [2]
