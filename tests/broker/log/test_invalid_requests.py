"""A leader refuses wrong requests of clients by a typed error, and appends nothing for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from strandline.broker.core.replication.produce_ticket import Produced, ProduceOutcome
from strandline.broker.log.handlers import Handlers
from strandline.broker.log.producer_ids import ProducerIds
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    InvalidRequest,
    InvalidRequiredAcks,
    MessageTooLarge,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    StrandlineError,
    UnexpectedOffset,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from strandline.ids import BrokerId, LeaderEpoch, TopicPartition
from strandline.records import encode_values
from strandline.vocabulary.log import FetchPartition, OffsetQuery, ProduceEntry
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.access import CALLER, OPEN
from tests.broker.support.replicas import CLOCK, LIVE, NAME, batch, settings
from tests.broker.support.seat import Seat, seated

EPOCH, FIRST = 6, BrokerId(1)
LIMIT = TopicConfig().max_message_bytes
ROOM = 1 << 20


@pytest.fixture
async def seat(tmp_path: Path) -> AsyncIterator[Seat]:
    """Broker 2 leads."""
    async with seated(tmp_path) as found:
        found.lead(EPOCH)
        yield found


@pytest.fixture
def handlers(seat: Seat) -> Handlers:
    view = ClusterView(seat.manager, seat.manager.settings, CLOCK)
    return Handlers(
        seat.manager, view, settings(), CLOCK, lambda: True, ProducerIds(lambda: None, Random(0)), OPEN
    )


def refused(handlers: Handlers, entry: ProduceEntry) -> StrandlineError:
    outcomes: list[ProduceOutcome] = []
    handlers.produce(entry, outcomes.append, CALLER)
    (error,) = outcomes
    assert isinstance(error, StrandlineError), error
    return error


@pytest.mark.parametrize(
    ("entry", "error", "said"),
    [
        (ProduceEntry(NAME, batch("x")[:-1]), CorruptMessage, ""),
        (ProduceEntry(NAME, encode_values([bytes(LIMIT)], 0)), MessageTooLarge, str(LIMIT)),
        (ProduceEntry(NAME, batch("x"), acks=2), InvalidRequiredAcks, "acks = 2"),
        (ProduceEntry(NAME, batch("x"), acks=-2), InvalidRequiredAcks, "acks = -2"),
        (ProduceEntry(NAME, batch("x"), expected_offset=-1), InvalidRequest, "expected_offset = -1"),
        (ProduceEntry(NAME, batch("x"), expected_offset=-(2**63)), InvalidRequest, str(-(2**63))),
        (ProduceEntry(NAME, batch("x"), expected_offset=2), UnexpectedOffset, "2"),
        (ProduceEntry(NAME, batch("x"), expected_offset=2**63 - 1), UnexpectedOffset, str(2**63 - 1)),
        (ProduceEntry(TopicPartition("no-such-topic", 0), batch("x")), UnknownTopicOrPartition, "0"),
        (ProduceEntry(TopicPartition("", 0), batch("x")), UnknownTopicOrPartition, "0"),
        (ProduceEntry(TopicPartition("\x00/..", 0), batch("x")), UnknownTopicOrPartition, "0"),
        (ProduceEntry(TopicPartition(NAME.topic, 99), batch("x")), UnknownTopicOrPartition, "99"),
        (ProduceEntry(TopicPartition(NAME.topic, -1), batch("x")), UnknownTopicOrPartition, "-1"),
    ],
)
async def test_a_wrong_entry_is_refused_alone_and_not_appended(
    seat: Seat, handlers: Handlers, entry: ProduceEntry, error: type[StrandlineError], said: str
) -> None:
    """The message says what is wrong; the entries beside it are appended."""
    outcomes: list[ProduceOutcome] = []
    handlers.produce(ProduceEntry(NAME, batch("x"), acks=1, expected_offset=0), outcomes.append, CALLER)
    end = seat.replica.log.log_end_offset
    found = refused(handlers, entry)
    assert isinstance(found, error) and found.message and said in found.message
    assert seat.replica.log.log_end_offset == end
    handlers.produce(ProduceEntry(NAME, batch("x"), acks=1, expected_offset=end), outcomes.append, CALLER)
    assert [type(outcome) for outcome in outcomes] == [Produced, Produced]


@pytest.mark.parametrize("offset", [-1, -(2**62), 2**62])
async def test_a_fetch_outside_the_log_is_refused_with_the_range(
    seat: Seat, handlers: Handlers, offset: int
) -> None:
    seat.commit(0)
    (fetched,) = await handlers.reads.read([FetchPartition(NAME, offset, EPOCH, ROOM)], ROOM, CALLER)
    assert isinstance(fetched.error, OffsetOutOfRange)
    assert "outside 0.." in fetched.error.message


@pytest.mark.parametrize(
    ("epoch", "error", "said"),
    [(EPOCH - 1, FencedLeaderEpoch, str(EPOCH)), (EPOCH + 1, UnknownLeaderEpoch, "")],
    ids=["over", "to come"],
)
async def test_a_fetch_of_another_epoch_is_refused(
    seat: Seat, handlers: Handlers, epoch: int, error: type[StrandlineError], said: str
) -> None:
    """CORRECTNESS T6: of an epoch to come, this broker may only be late."""
    seat.commit(0)
    (fetched,) = await handlers.reads.read([FetchPartition(NAME, 0, epoch, ROOM)], ROOM, CALLER)
    assert isinstance(fetched.error, error) and said in fetched.error.message


async def test_a_timestamp_that_means_nothing_is_refused(handlers: Handlers) -> None:
    (listed,) = await handlers.list_offsets([OffsetQuery(NAME, -4)], CALLER)
    assert isinstance(listed.error, InvalidRequest)


async def test_a_follower_answers_with_the_leader_it_knows(tmp_path: Path) -> None:
    """A client finds it without polling."""
    async with seated(tmp_path) as seat:
        seat.manager.follow(seat.replica, FIRST, LeaderEpoch(EPOCH))
        view = ClusterView(seat.manager, seat.manager.settings, CLOCK)
        ids = ProducerIds(lambda: None, Random(0))
        handlers = Handlers(seat.manager, view, settings(), CLOCK, lambda: True, ids, OPEN)
        error = refused(handlers, ProduceEntry(NAME, batch("x")))
    assert isinstance(error, NotLeaderOrFollower) and error.leader is not None
    leader = LIVE[FIRST].endpoint
    assert (error.leader.broker_id, error.leader.leader_epoch) == (FIRST, EPOCH)
    assert (error.leader.host, error.leader.port) == (leader.host, leader.port)
