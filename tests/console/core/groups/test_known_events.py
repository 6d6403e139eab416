"""The rebalances of a group, out of the window that the timeline has."""

from __future__ import annotations

import json
from typing import Any

from strandline.console.core.groups.known_events import EVENTS_MAX, KnownEvents
from strandline.console.core.timeline.journal import Record
from strandline.console.core.timeline.places import Source
from strandline.console.core.window import Window

NOW_MS = 1_000_000


class Topic:
    """A window that is fed with the events of one partition."""

    def __init__(self) -> None:
        self.window = Window()
        self.known = KnownEvents(self.window)
        self.offset = 0

    def add(self, event: str, group: str = "g", *, at_ms: int = 0, **fields: Any) -> None:
        value = {"version": 1, "event": event, "group": group, "generation": 1, "at_ms": at_ms, **fields}
        self.window.read(Source.GROUP, 0, [Record(self.offset, at_ms, json.dumps(value).encode())], NOW_MS)
        self.offset += 1


def test_the_rebalances_of_one_group_are_found_with_the_ids_of_their_events() -> None:
    topic = Topic()
    assert topic.known.rebalances("g").rebalances == ()
    topic.add("rebalance_started", "other", reason="other")
    topic.add("rebalance_started", reason="one")
    topic.add("task_progress", member="a", task="t-0", lag=1)
    topic.add("generation_stable")
    (only,) = topic.known.rebalances("g").rebalances
    assert (only.reason, only.event) == ("one", "group/0/1")
    assert topic.known.groups_with_tasks() == {"g"}


def test_events_are_read_in_the_order_of_the_coordinator_whatever_members_clocks_say() -> None:
    """`assigned` has the member's time, which may be hours early."""
    topic = Topic()
    topic.add("rebalance_started", at_ms=5_000)
    topic.add("generation_started", at_ms=6_000)
    topic.add("generation_stable", at_ms=7_000)
    topic.add("assigned", at_ms=5, member="a", partitions={"t": [0]})
    (only,) = topic.known.rebalances("g").rebalances
    assert list(only.changes.moves) == ["a"]


def test_rebalances_are_read_again_only_after_new_events() -> None:
    topic = Topic()
    topic.add("rebalance_started", reason="one")
    first = topic.known.rebalances("g")
    assert topic.known.rebalances("g") is first
    topic.add("rebalance_started", reason="two")
    assert [each.reason for each in topic.known.rebalances("g").rebalances] == ["two", "one"]


def test_the_rebalances_of_a_topic_that_was_created_anew_are_its_own() -> None:
    """Also if as many events have the same offsets."""
    topic = Topic()
    topic.add("rebalance_started", reason="before")
    assert [each.reason for each in topic.known.rebalances("g").rebalances] == ["before"]
    topic.window.forget(Source.GROUP)
    assert topic.known.rebalances("g").rebalances == ()
    topic.offset = 0
    topic.add("rebalance_started", reason="after")
    assert [each.reason for each in topic.known.rebalances("g").rebalances] == ["after"]


def test_only_the_newest_events_are_read() -> None:
    topic = Topic()
    for number in range(EVENTS_MAX + 5):
        topic.add("member_joined", member=f"m{number}")
    topic.add("rebalance_started")
    joined = topic.known.rebalances("g").rebalances[0].changes.joined
    assert ("m5" in joined, "m6" in joined) == (False, True)
