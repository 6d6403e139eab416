"""Partitions of topics that are deleted, and created anew under their names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.console.core.timeline.explanation import explain
from strandline.console.core.timeline.journal import Record
from strandline.console.core.timeline.places import Source, parse_id
from strandline.console.core.timeline.rows import GONE
from strandline.console.core.window import Window
from strandline.ids import NO_BROKER, NO_EPOCH, TopicId
from strandline.vocabulary.metadata import PartitionMetadata, TopicMetadata
from tests.console.core.timeline.events import AT, change, elected
from tests.console.core.timeline.test_window import ALL, drawn, lane, window_of


def made(offset: int, kind: str, at_ms: int, topic_id: str, broker: int = 1) -> Record:
    """The request to one replica of a topic that is created or deleted."""
    command, reason = {
        "created": ("start-replica", "topic created"),
        "deleted": ("delete-replica", "topic deleted"),
    }[kind]
    return change(
        offset, command, at_ms, id=f"{kind}-{topic_id}-{broker}", state="requested", requester=-1, epoch=-1,
        broker=broker, reason=reason, topic_id=topic_id,
    )  # fmt: skip


LIVES = [
    made(0, "created", AT, "a" * 32),
    made(1, "created", AT, "a" * 32, 2),
    elected(2, 1, 6, AT + 10, isr=[1, 2], topic_id="a" * 32),
    made(3, "deleted", AT + 500, "a" * 32),
    made(4, "deleted", AT + 500, "a" * 32, 2),
    made(5, "created", AT + 600, "b" * 32),
    elected(6, 2, 9, AT + 610, isr=[2, 3], topic_id="b" * 32),
]


@pytest.mark.parametrize("older", [0, 3, 4, 6, 7])
def test_a_topic_that_is_created_anew_has_marks_and_bars_of_its_own(older: int) -> None:
    """Also if some of its events are read back later."""
    window = window_of(*LIVES[older:])
    partition = PartitionMetadata(1, 2, 9, (2, 3), (2, 3))
    window.seen_topics((TopicMetadata("orders", TopicId("b" * 32), (partition,)),), AT + 700)
    window.read(Source.STATE, 0, LIVES[:older], AT + 50_000, older=True)
    marks = [(each["kind"], each["at"] - AT, each["event"]) for each in lane(window, "marks")]
    assert [mark[:2] for mark in marks] == [("created", 0), ("deleted", 500), ("created", 600)]
    bars = [(each["from"] - AT, each["until"], each["broker"]) for each in lane(window, "leader")]
    assert bars == [(10, AT + 500, 1), (610, None, 2)]
    isr = [(each["from"] - AT, each["until"], each["of"]) for each in lane(window, "isr")]
    assert isr == [(10, AT + 500, None), (610, None, 2)]
    election = window.event(parse_id("state/0/6"))
    assert election is not None
    explained = explain(window, parse_id("state/0/6"), election, AT + 610)
    assert explained["before"] == {}, "there was no such topic just before"


@pytest.mark.parametrize("late", [False, True])
def test_a_topic_that_is_created_anew_leaves_the_old_one_its_number_of_replicas(late: bool) -> None:
    """Also if it is seen before its events are read, and if the old number is seen a little late."""
    window = window_of(elected(2, 1, 6, AT + 10, isr=[1], topic_id="a" * 32))
    old, new = PartitionMetadata(1, 1, 6, (1, 2), (1,)), PartitionMetadata(1, 2, 9, (2,), (2,))
    seen = [(20, "a", old), (490, "a", old), (605, "a", old), (700, "b", new), (900, "b", new)]
    events = [*LIVES[3:6], elected(6, 2, 9, AT + 610, isr=[2], topic_id="b" * 32)]
    for at_ms, topic_id, partition in seen:
        if at_ms == 700 and not late:
            window.read(Source.STATE, 0, events, AT + 620)
        window.seen_topics((TopicMetadata("orders", TopicId(topic_id * 32), (partition,)),), AT + at_ms)
    if late:
        window.read(Source.STATE, 0, events, AT + 950)
    assert [(each["size"], each["of"]) for each in lane(window, "isr")] == [(1, 2), (1, 1)]
    window.read(Source.STATE, 0, [made(7, "deleted", AT + 2_000, "b" * 32)], AT + 2_000)
    assert [(each["size"], each["of"]) for each in lane(window, "isr")] == [(1, 2), (1, 1)]


def test_a_topic_that_was_deleted_and_created_between_two_looks_is_not_ended_by_the_first() -> None:
    window = window_of(*LIVES[:3])
    partition = PartitionMetadata(1, 1, 6, (1, 2), (1, 2))
    window.seen_topics((TopicMetadata("orders", TopicId("a" * 32), (partition,)),), AT + 20)
    window.read(Source.STATE, 0, LIVES[3:], AT + 620)
    window.seen_topics((), AT + 630)  # an answer of a broker that did not know better
    assert [each["until"] for each in lane(window, "leader")] == [AT + 500, None]


def test_the_lines_of_offsets_do_not_go_on_from_a_deleted_topic() -> None:
    window = window_of(*LIVES)
    for at_ms, end in ((20, 400), (480, 500), (620, 0), (700, 3)):
        window.seen_offsets("orders", 1, AT + at_ms, end, end)
    view = replace(ALL, until_ms=AT + 1_000, offsets_of=frozenset({"orders"}))
    (offsets,) = (each for each in drawn(window, view)[0]["lanes"] if each["kind"] == "offsets")
    line = [[AT + 20, 400], [AT + 480, 500], [AT + 500, None], [AT + 620, 0], [AT + 700, 3]]
    assert offsets["hw"] == line and offsets["leo"] == line


def test_a_deletion_by_a_clock_that_is_ahead_does_not_end_the_new_topic() -> None:
    ahead = [made(3, "deleted", AT + 900, "a" * 32), made(4, "created", AT + 950, "b" * 32)]
    window = window_of(*LIVES[:3], *ahead, LIVES[6])
    bars = [(each["from"] - AT, each["until"], each["broker"]) for each in lane(window, "leader")]
    assert bars == [(10, AT + 610, 1), (610, None, 2)]


@pytest.mark.parametrize("elected_ms", [-1, 0, 15, 5_000])
def test_a_partition_that_was_seen_before_its_first_election_had_no_leader_from_then_on(
    elected_ms: int,
) -> None:
    """Not since ever. An election by a clock that is behind leaves nothing of what was seen."""
    window = Window()
    for at_ms in (0, 10):
        partition = PartitionMetadata(1, NO_BROKER, NO_EPOCH, (1, 2), (1, 2))
        window.seen_topics((TopicMetadata("orders", TopicId("a" * 32), (partition,)),), AT + at_ms)
    created = [made(0, "created", AT - 5, "a" * 32)]
    window.read(Source.STATE, 0, created, AT + 20)
    assert [(each["from"], each["until"], each["broker"]) for each in lane(window, "leader")] == [
        (AT, None, GONE)
    ]
    election = [elected(1, 1, 0, AT + elected_ms, isr=[1, 2], topic_id="a" * 32)]
    window.read(Source.STATE, 0, election, AT + 6_000)
    bars = [(each["from"] - AT, each["until"], each["broker"]) for each in lane(window, "leader")]
    waited = [] if elected_ms <= 0 else [(0, AT + elected_ms, GONE)]
    assert bars == [*waited, (elected_ms, None, 1)]
    assert lane(window, "isr")[0]["from"] == AT + min(elected_ms, 0)
