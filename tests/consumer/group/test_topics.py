"""A broker that is a moment behind makes no group rebalance: what seems gone is believed after a while."""

from __future__ import annotations

import re

from strandline.consumer.group.topics import GONE_AFTER_S, Topics
from tests.consumer.brokers import Parts


async def test_a_topic_that_seems_gone_or_smaller_counts_as_such_after_a_while() -> None:
    async with Parts() as parts:
        topics = Topics(parts.cluster, parts.clock)
        parts.brokers.topics = {"a": 4, "b": 2}
        assert await topics.counts(["a", "b", "c"]) == {"a": 4, "b": 2, "c": 0}
        assert topics.settled(["a", "b"]) and not topics.settled(["c"])
        parts.brokers.topics = {"a": 3}
        assert await topics.counts(["a", "b"]) == {"a": 4, "b": 2}
        assert not topics.settled(["a"]) and not topics.settled(["b"])
        parts.clock.now += GONE_AFTER_S
        assert await topics.counts(["a", "b"]) == {"a": 3, "b": 0}


async def test_a_topic_that_is_back_was_never_gone() -> None:
    async with Parts() as parts:
        topics = Topics(parts.cluster, parts.clock)
        parts.brokers.topics = {"a": 4}
        assert await topics.counts(["a"]) == {"a": 4}
        parts.brokers.topics = {}
        assert await topics.counts(["a"]) == {"a": 4}
        parts.brokers.topics = {"a": 6}
        parts.clock.now += GONE_AFTER_S
        assert await topics.counts(["a"]) == {"a": 6} and topics.settled(["a"])


async def test_a_pattern_has_to_match_the_whole_name_and_never_the_systems_topics() -> None:
    async with Parts() as parts:
        topics = Topics(parts.cluster, parts.clock)
        parts.brokers.topics = {"orders": 1, "orders-old": 1, "__group_events": 1}
        assert await topics.matching(re.compile("orders")) == {"orders"}
        assert await topics.matching(re.compile(".*")) == {"orders", "orders-old"}
        parts.brokers.topics = {"orders": 1}
        assert await topics.matching(re.compile(".*")) == {"orders", "orders-old"}
        parts.clock.now += GONE_AFTER_S
        assert await topics.matching(re.compile(".*")) == {"orders"}


async def test_nothing_is_asked_for_no_topics() -> None:
    """An empty list of topics means all of them on the wire."""
    async with Parts() as parts:
        parts.brokers.topics = {"a": 1}
        assert await Topics(parts.cluster, parts.clock).counts([]) == {}
