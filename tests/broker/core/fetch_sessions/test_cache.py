"""The fetch sessions of a broker keep to their bounds, by Kafka's rules of eviction."""

from __future__ import annotations

import pytest

from strandline.broker.core.fetch_sessions.cache import AGE_S_MIN, SessionCache
from strandline.broker.core.fetch_sessions.session import FetchSession
from strandline.ids import TopicPartition
from strandline.security.principal import ANONYMOUS
from strandline.vocabulary.log import FetchPartition

LATER = AGE_S_MIN + 1


def grow(session: FetchSession, size: int) -> None:
    session.take(FetchPartition(TopicPartition("t", number), 0, -1, 1) for number in range(size))


def session_of(number: int, size: int, now_s: float = 0) -> FetchSession:
    session = FetchSession(number, ANONYMOUS, by_ids=False, now_s=now_s)
    grow(session, size)
    return session


def full_of(*sizes: int, partitions_max: int = 100) -> SessionCache:
    """No slot is free. The first session was used first."""
    cache = SessionCache(len(sizes), partitions_max)
    for number, size in enumerate(sizes):
        assert cache.add(session_of(number, size), 0) == []
    return cache


def ids(cache: SessionCache) -> list[int]:
    return [each.id for each in cache]


@pytest.mark.parametrize(
    ("used_s", "now_s", "size", "left"),
    [
        (LATER - 1, LATER - 1.5, 10, None),  # all are young
        (0, LATER, 1, [1, 2, 9]),  # the one that was not used goes for any other
        (LATER, LATER, 2, None),  # all are used, and larger
        (LATER, LATER, 3, [0, 2, 9]),  # the smallest goes for one that is as large
        (LATER, LATER, 9, [0, 2, 9]),
    ],
)
def test_a_session_takes_the_slot_of_one_that_counts_less(
    used_s: float, now_s: float, size: int, left: list[int] | None
) -> None:
    """As Kafka's FetchSessionCache: one that is not used, or an old one that is no larger."""
    cache = full_of(4, 3, 5)
    for each in cache:
        if each.id or used_s:
            cache.used(each, max(used_s, LATER) if used_s else LATER)
    victims = cache.add(session_of(9, size, now_s), now_s)
    assert (victims is None) is (left is None)
    assert ids(cache) == (left if left is not None else [0, 1, 2])
    assert cache.evictions == (left is not None)
    assert cache.partitions == sum(len(each) for each in cache)


def test_the_partitions_of_all_sessions_have_a_bound() -> None:
    """One that finds no room is not begun; several go for one that needs their room, or none."""
    cache = SessionCache(10, 10)
    assert cache.add(session_of(1, 4), 0) == [] and cache.add(session_of(2, 4), 0) == []
    assert cache.add(session_of(3, 3), 0) is None
    assert cache.add(session_of(4, 11), LATER) is None and ids(cache) == [1, 2]
    victims = cache.add(session_of(5, 9), LATER)
    assert victims is not None and [each.id for each in victims] == [1, 2]
    assert (ids(cache), cache.partitions, cache.evictions) == ([5], 9, 2)


def test_a_session_that_grows_beyond_the_bound_ends() -> None:
    cache = SessionCache(10, 10)
    one, other = session_of(1, 4), session_of(2, 4)
    cache.add(one, 0)
    cache.add(other, 0)
    grow(one, 6)
    assert cache.used(one, 1) and cache.partitions == 10
    grow(other, 5)
    assert not cache.used(other, 1)
    assert (ids(cache), cache.partitions, cache.evictions) == ([1], 6, 1)


def test_a_session_that_ends_gives_its_room_back() -> None:
    cache = full_of(4, 3)
    first, _ = cache
    cache.remove(first)
    cache.remove(first)
    assert (ids(cache), cache.partitions, cache.evictions) == ([1], 3, 0)
