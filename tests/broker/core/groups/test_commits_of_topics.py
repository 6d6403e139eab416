"""A commit belongs to one incarnation of its topic (KIP-516)."""

from __future__ import annotations

import pytest

from strandline.broker.core.groups.effects import Append
from strandline.broker.core.groups.records import (
    TOPIC_ID_HEADER,
    UnreadableGroupRecord,
    encode_offset_key,
    encode_offset_value,
)
from strandline.broker.core.groups.requests import Commit
from strandline.errors import UnknownTopicId
from strandline.ids import NO_TOPIC_ID, TopicId, TopicPartition
from strandline.records import Headers
from strandline.vocabulary.groups import NO_GENERATION, NO_MEMBER, CommittedOffset, OffsetCommit, OffsetFetch
from tests.broker.core.groups.support.stage import GROUP, Stage, partition

P0 = partition(0)
OLD, NEW = TopicId("0" * 31 + "1"), TopicId("0" * 31 + "2")


def committed(stage: Stage, topic_id: TopicId, present: TopicId) -> object:
    """The outcome of a commit of a client outside the group."""
    request = OffsetCommit(GROUP, NO_MEMBER, NO_GENERATION, {P0: CommittedOffset(5, topic_id=topic_id)})
    token = stage.ask(Commit(request, topic_ids={P0.topic: present} if present else {}))
    return stage.answer(token, dict)[P0]


def fetched(stage: Stage) -> CommittedOffset | None:
    found: dict[TopicPartition, CommittedOffset | None] = stage.answer(
        stage.ask(OffsetFetch(GROUP, (P0,))), dict
    )
    return found[P0]


@pytest.mark.parametrize(
    ("asked", "present", "kept"),
    [
        (NEW, NEW, NEW),
        (NO_TOPIC_ID, NEW, NEW),
        (NEW, NO_TOPIC_ID, NEW),
        (NO_TOPIC_ID, NO_TOPIC_ID, NO_TOPIC_ID),
    ],
)
def test_a_commit_is_kept_with_the_id_of_its_topic(asked: TopicId, present: TopicId, kept: TopicId) -> None:
    """CORRECTNESS G18: a client that names no id means the topic as it is. While ZooKeeper is away, a
    member's word counts."""
    stage = Stage()
    assert committed(stage, asked, present) is None
    found = fetched(stage)
    assert found is not None and found.topic_id == kept


def test_a_commit_of_another_incarnation_is_refused_with_both_ids() -> None:
    """CORRECTNESS G18: a member that has not heard of the new topic would skip its records."""
    stage = Stage()
    refused = committed(stage, OLD, NEW)
    assert isinstance(refused, UnknownTopicId)
    assert OLD in refused.message and NEW in refused.message and P0.topic in refused.message
    assert fetched(stage) is None
    assert isinstance(committed(stage, TopicId("no id"), NO_TOPIC_ID), UnknownTopicId)


def loaded(headers: Headers) -> CommittedOffset | None:
    """What a coordinator knows that has read one record."""
    stage = Stage()
    value = encode_offset_value(CommittedOffset(5, 3))
    stage.core.load(encode_offset_key(GROUP, P0), value, 0, headers)
    return fetched(stage)


def test_the_id_is_in_a_header_so_that_earlier_brokers_read_the_commit() -> None:
    """The value is as an earlier broker wrote it; what that wrote has no header, and no id."""
    stage = Stage()
    committed(stage, NEW, NEW)
    (append,) = [effect for effect in stage.effects if isinstance(effect, Append)]
    ((_, value, headers),) = append.each()
    assert value is not None and value == bytes.fromhex("0003 0000000000000005 ffffffff 0000") + value[-8:]
    assert headers == ((TOPIC_ID_HEADER, bytes.fromhex(NEW)),)
    assert (found := loaded(headers)) is not None and found.topic_id == NEW
    assert (found := loaded(())) is not None and found.topic_id == NO_TOPIC_ID
    with pytest.raises(UnreadableGroupRecord, match="not 16 bytes"):
        loaded(((TOPIC_ID_HEADER, b"short"),))
