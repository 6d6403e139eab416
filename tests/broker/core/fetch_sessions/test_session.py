"""A fetch session: what is due, what comes to rest, and what an answer has to have."""

from __future__ import annotations

import pytest

from strandline.broker.core.fetch_sessions.session import (
    EPOCH_MAX,
    FetchSession,
    Key,
    epoch_after,
    key_of,
)
from strandline.errors import NotLeaderOrFollower
from strandline.ids import TopicId, TopicPartition
from strandline.security.principal import ANONYMOUS
from strandline.vocabulary.log import Fetched, FetchPartition


def at(partition: int, offset: int = 0, topic_id: str = "") -> FetchPartition:
    return FetchPartition(TopicPartition("t", partition), offset, -1, 1 << 20, TopicId(topic_id))


def found(partition: int, watermark: int = 5, start: int = 0, records: bytes = b"") -> Fetched:
    return Fetched(TopicPartition("t", partition), None, watermark, start, records)


def failed(partition: int) -> Fetched:
    return Fetched(TopicPartition("t", partition), NotLeaderOrFollower("x"))


def key(partition: int) -> Key:
    return ("t", partition)


def session_of(*partitions: int) -> FetchSession:
    """A session whose client knows these partitions, all at rest."""
    session = FetchSession(7, ANONYMOUS, by_ids=False, now_s=0)
    session.take(map(at, partitions))
    for each in partitions:
        assert session.tells(key(each), found(each))
        assert session.rests(key(each), found(each), arrived=False)
    return session


def due(session: FetchSession) -> list[int]:
    return [position.name.partition for position in session.due]


def test_a_session_names_topics_by_name_or_by_id() -> None:
    assert (key_of(at(1)), key_of(at(1, topic_id="ab"))) == (("t", 1), ("ab", 1))


@pytest.mark.parametrize(("epoch", "after"), [(0, 1), (1, 2), (EPOCH_MAX, 1)])
def test_the_epoch_of_the_next_request(epoch: int, after: int) -> None:
    """KIP-227: 0 begins sessions, so it does not come again."""
    assert epoch_after(epoch) == after


@pytest.mark.parametrize(
    ("looked", "arrived", "rests"),
    [
        (found(0), False, True),
        (found(0), True, False),
        (found(0, watermark=6), False, False),
        (found(0, start=1), False, False),
        (found(0, watermark=-1), False, False),
        (failed(0), False, False),
    ],
)
def test_a_partition_rests_while_nothing_is_new(looked: Fetched, arrived: bool, rests: bool) -> None:
    """It has nothing at its position, and its client knows how far it is."""
    session = session_of(0)
    session.wake(key(0))
    assert session.rests(key(0), looked, arrived=arrived) is rests
    assert due(session) == ([] if rests else [0])


@pytest.mark.parametrize(
    ("fetched", "tells"),
    [
        (found(0), False),
        (found(0, records=b"r"), True),
        (found(0, watermark=6), True),
        (found(0, start=1), True),
        (failed(0), True),
    ],
)
def test_an_answer_has_what_the_client_does_not_know(fetched: Fetched, tells: bool) -> None:
    """KIP-227. An error is in each answer, and after it how far the partition is."""
    session = session_of(0)
    assert session.tells(key(0), fetched) is tells
    again = bool(fetched.records) or fetched.error is not None
    assert session.tells(key(0), fetched) is again
    assert session.tells(key(0), found(0)) is (fetched != found(0) and not fetched.records)


def test_what_a_request_names_is_due() -> None:
    """Positions that moved, and new ones; forgotten ones are gone, also if they are named in the same
    request."""
    session = session_of(0, 1, 2)
    session.take([at(1, 9), at(3), at(4)], [key(0), key(4), key(8)])
    assert due(session) == [1, 3] and len(session) == 3
    assert session.position(key(1)) == at(1, 9) and session.position(key(0)) is None
    assert not session.tells(key(0), found(0, watermark=9)), "it was read before it was forgotten"


def test_a_partition_that_was_forgotten_does_not_wake() -> None:
    session = session_of(0, 1)
    session.take([], [key(0)])
    session.wake(key(0))
    assert due(session) == []
    session.wake_all()
    assert due(session) == [1]


def test_each_partition_has_its_turn_if_not_all_fit_into_an_answer() -> None:
    """KIP-227: one with records is read last next time."""
    session = session_of(0, 1, 2)
    session.wake_all()
    order = []
    for _ in range(4):
        first = due(session)[0]
        order.append(first)
        session.tells(key(first), found(first, records=b"r"))
    assert order == [0, 1, 2, 0]


def test_a_watermark_that_stands_counts_as_known() -> None:
    """With too few replicas in sync it may stand for days, and the partition has to rest."""
    session = session_of(0)
    session.wake(key(0))
    standing = found(0, watermark=-1)._replace(standing_watermark=5)
    assert session.rests(key(0), standing, arrived=False)
