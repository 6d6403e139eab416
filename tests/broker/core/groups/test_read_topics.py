"""Since when a group reads its topics (CORRECTNESS G21), kept over coordinators and versions."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.broker.core.groups.records import (
    READ_TOPICS_HEADER,
    ReadTopics,
    UnreadableGroupRecord,
    decode_read_topics,
    encode_read_topics,
)
from strandline.broker.core.groups.requests import NoteTopics, UnknownTopics
from strandline.broker.core.groups.state.present_topics import PresentTopics
from strandline.broker.core.groups.state.read_topics import READ_TOPICS_MAX
from strandline.ids import TopicId
from strandline.vocabulary.groups import GroupProtocol, OffsetFetch, ReadSince
from strandline.vocabulary.parsing.consumer_protocol import EAGER_VERSION, Subscription
from tests.broker.core.groups.support.stage import GROUP, Stage, partition

FIRST, SECOND = TopicId("0" * 31 + "1"), TopicId("0" * 31 + "2")


def reading(*topics: str) -> dict[str, Any]:
    """The protocols of a member that asks for these topics."""
    return {"protocols": (GroupProtocol("range", Subscription(EAGER_VERSION, topics).encode()),)}


def unknown(stage: Stage) -> Any:
    return stage.answers[stage.ask(UnknownTopics(GROUP))]


def note(stage: Stage, partitions: dict[str, int], *, latest: int = 5, above: int = 3) -> None:
    ids = {topic: FIRST for topic, count in partitions.items() if count}
    present = PresentTopics(ids, dict.fromkeys(ids, above), latest, partitions)
    stage.ask(NoteTopics(GROUP, present))


def since(stage: Stage, *topics: str) -> dict[str, ReadSince]:
    names = tuple(partition(0, topic) for topic in topics)
    return dict(stage.answers[stage.ask(OffsetFetch(GROUP, names))].read_since)


def test_the_next_coordinator_knows_since_when_a_group_reads_its_topics() -> None:
    """From before the first assignment, and also once the group has no members."""
    stage = Stage()
    joined = stage.answers[stage.enter("m", **reading("t", "later"))]
    assert unknown(stage) == {"t", "later"}
    note(stage, {"t": 3, "later": 0})
    assert since(stage, "t", "later", "x") == {"t": ReadSince(FIRST, 3), "later": ReadSince()}
    stage.sync("m", joined.generation, {"m": b"a"})
    assert unknown(stage) is None
    following = stage.elsewhere()
    assert since(following, "t", "later") == since(stage, "t", "later")
    stage.leave("m")
    assert since(stage.elsewhere(), "t", "later") == since(stage, "t", "later") != {}


def test_what_no_member_asks_for_is_forgotten() -> None:
    """A later subscription begins anew."""
    stage = Stage()
    stage.stable("m", **reading("t", "u"))
    note(stage, {"t": 3, "u": 1})
    stage.join("m", **reading("t"))
    assert unknown(stage) is None
    assert since(stage, "t", "u") == {"t": ReadSince(FIRST, 3)}


@pytest.mark.parametrize("above", [5, 4])
def test_a_topic_that_comes_to_match_a_pattern_was_not_there_if_it_was_made_since(above: int) -> None:
    """All epochs of its leaders are above the latest one that there was when the pattern came; a topic that
    was there, and that the member may see only now, is as any other."""
    stage = Stage()
    joined = stage.answers[stage.enter("m", pattern="p", **reading("t"))]
    assert unknown(stage) == {"t"}
    note(stage, {"t": 1}, latest=5)
    stage.sync("m", joined.generation, {"m": b"a"})
    following = stage.elsewhere()
    following.join("m", pattern="p", **reading("t", "new"))
    assert unknown(following) == {"new"}
    note(following, {"new": 2}, latest=9, above=above)
    assert since(following, "new") == {"new": ReadSince() if above == 5 else ReadSince(FIRST, 2)}


def test_another_pattern_begins_anew() -> None:
    stage = Stage()
    stage.stable("m", pattern="p", **reading("t"))
    note(stage, {"t": 1}, latest=5)
    stage.join("m", pattern="q", **reading("t", "new"))
    note(stage, {"new": 2}, latest=9, above=7)
    assert since(stage, "t", "new") == {"t": ReadSince(FIRST, 1), "new": ReadSince(FIRST, 2)}


def test_what_was_not_looked_at_stays_unknown() -> None:
    """ZooKeeper did not answer: it is looked at with the next assignment."""
    stage = Stage()
    stage.stable("m", pattern="p", **reading("t"))
    stage.ask(NoteTopics(GROUP, PresentTopics()))
    assert unknown(stage) == {"t"} and since(stage, "t") == {}


def test_a_group_that_reads_too_many_topics_keeps_nothing() -> None:
    stage = Stage()
    stage.stable("m", **reading("t"))
    note(stage, {"t": 1})
    stage.join("m", **reading("t", *(f"t{number}" for number in range(READ_TOPICS_MAX))))
    assert unknown(stage) is None and since(stage, "t") == {}


def test_the_header_is_read_as_it_was_written_and_a_later_version_is_left_alone() -> None:
    read = ReadTopics({"t": ReadSince(SECOND, 3), "later": ReadSince()}, {"p": 2**31})
    ((name, content),) = encode_read_topics(read)
    assert content is not None and decode_read_topics(((name, content),)) == read
    assert encode_read_topics(ReadTopics()) == () and decode_read_topics(()) == ReadTopics()
    assert decode_read_topics(((name, b"\0\1more"),)) == ReadTopics()
    for wrong in (content[:-1], content + b"x", b"", None):
        with pytest.raises(UnreadableGroupRecord, match=READ_TOPICS_HEADER):
            decode_read_topics(((name, wrong),))


def test_a_precedent_is_of_one_topic_and_of_its_partitions() -> None:
    found = ReadSince(FIRST, 2)
    assert [found.precedes(number, FIRST) for number in range(3)] == [False, False, True]
    assert found.precedes(0, SECOND) and ReadSince().precedes(0, FIRST)
