"""A commit belongs to one incarnation of its topic (KIP-516)."""

from __future__ import annotations

import pytest

from strandline.broker.core.coordinators.effects import Append
from strandline.broker.core.groups.records import (
    TOPIC_ID_HEADER,
    UnreadableGroupRecord,
    encode_offset_key,
    encode_offset_value,
    encode_topic_id,
)
from strandline.broker.core.groups.requests import Commit
from strandline.broker.core.groups.state.offsets import SeenTopics
from strandline.broker.core.groups.state.present_topics import PresentTopics
from strandline.errors import UnknownLeaderEpoch, UnknownTopicId
from strandline.ids import NO_TOPIC_ID, TopicId, TopicPartition
from strandline.records import Codec, Headers, decode_batch, iterate, pack
from strandline.vocabulary.groups import NO_GENERATION, NO_MEMBER, CommittedOffset, OffsetCommit, OffsetFetch
from tests.broker.core.groups.support.stage import GROUP, Stage, partition

P0 = partition(0)
OLD, NEW = TopicId("0" * 31 + "1"), TopicId("0" * 31 + "2")


def committed(stage: Stage, topic_id: TopicId, present: TopicId) -> object:
    """The outcome of a commit of a client outside the group."""
    request = OffsetCommit(GROUP, NO_MEMBER, NO_GENERATION, {P0: CommittedOffset(5, topic_id=topic_id)})
    token = stage.ask(Commit(request, present=PresentTopics({P0.topic: present} if present else {})))
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


def test_an_epoch_from_before_the_topic_is_of_another_one() -> None:
    """Leader epochs are the cluster's: a client that names no id tells by it what it has read."""
    present = PresentTopics({P0.topic: NEW}, above_epochs={P0.topic: 7}, latest_epoch=9)

    def outcome(epoch: int, topic_id: TopicId = NO_TOPIC_ID) -> object:
        stage = Stage()
        offset = CommittedOffset(5, epoch, topic_id=topic_id)
        token = stage.ask(
            Commit(OffsetCommit(GROUP, NO_MEMBER, NO_GENERATION, {P0: offset}), present=present)
        )
        return stage.answer(token, dict)[P0]

    refused = outcome(7)
    assert isinstance(refused, UnknownTopicId)
    assert NEW in refused.message and "epoch 7" in refused.message
    assert outcome(8) is None
    assert outcome(9) is None
    assert outcome(7, NEW) is None, "the client knows better"
    assert outcome(-1) is None
    assert outcome(0) is None, "no leader has epoch 0: it stands for none"
    future = outcome(10)
    assert isinstance(future, UnknownLeaderEpoch) and "10" in future.message and "9" in future.message


# --- topics that go ------------------------------------------------------------------------------


def follow(stage: Stage, mark: int, **ids: TopicId | None) -> None:
    stage.play(stage.core.follow_topics(SeenTopics(mark, ids=ids), stage.now))


def test_offsets_of_a_topic_that_was_made_anew_go() -> None:
    """CORRECTNESS G18: also if both happened between two readings of the names."""
    stage = Stage()
    committed(stage, OLD, OLD)
    follow(stage, stage.core.mark, words=OLD)
    assert fetched(stage)
    follow(stage, stage.core.mark, words=NEW)
    assert fetched(stage) is None
    assert stage.elsewhere().committed() == {}


def test_a_topic_that_is_gone_takes_the_offsets_that_name_it() -> None:
    stage = Stage()
    committed(stage, OLD, OLD)
    follow(stage, stage.core.mark, words=None)
    assert fetched(stage) is None


@pytest.mark.parametrize("seen", [OLD, None])
def test_a_fresh_commit_outlives_a_look_that_began_before_it(seen: TopicId | None) -> None:
    """CORRECTNESS G18: the look may have found the topic as it was before it was made anew."""
    stage = Stage()
    committed(stage, OLD, OLD)
    mark = stage.core.mark
    committed(stage, NEW, NEW)
    follow(stage, mark, words=seen)
    stage.play(stage.core.follow_topics(SeenTopics(mark, {"words"}), stage.now))
    found = fetched(stage)
    assert found is not None and found.topic_id == NEW
    assert stage.elsewhere().committed() == {P0: 5}


def test_a_fresh_commit_outlives_the_tombstone_of_an_old_one() -> None:
    """CORRECTNESS G18: whichever of the two writes is answered first."""
    stage = Stage()
    committed(stage, OLD, OLD)
    stage.writing = False
    follow(stage, stage.core.mark, words=NEW)
    offset = CommittedOffset(7, topic_id=NEW)
    request = OffsetCommit(GROUP, NO_MEMBER, NO_GENERATION, {P0: offset})
    stage.ask(Commit(request, present=PresentTopics({P0.topic: NEW})))
    tombstone, fresh = stage.wanted
    stage.log.extend((*tombstone.records, *fresh.records))
    stage.headers.extend(headers for append in stage.wanted for _, _, headers in append.each())
    stage.play(stage.core.appended(fresh.write_id, None, stage.now))
    stage.play(stage.core.appended(tombstone.write_id, None, stage.now))
    found = fetched(stage)
    assert found is not None and (found.offset, found.topic_id) == (7, NEW)
    assert stage.elsewhere().committed() == {P0: 7}


def test_an_offset_without_an_id_is_of_the_topic_that_is_there_first() -> None:
    """CORRECTNESS G18: an earlier version wrote it, or ZooKeeper was away. From the first look on it is of
    one topic, and goes with it."""
    stage = Stage()
    committed(stage, NO_TOPIC_ID, NO_TOPIC_ID)
    follow(stage, stage.core.mark, words=None)
    assert fetched(stage), "a topic that never was loses nothing"
    follow(stage, stage.core.mark, words=OLD)
    found = fetched(stage)
    assert found is not None and (found.offset, found.topic_id) == (5, OLD)
    follow(stage, stage.core.mark, words=NEW)
    assert fetched(stage) is None


# --- on disk -------------------------------------------------------------------------------------


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


BEFORE = bytes.fromhex(
    "00000000000000000000008affffffff02e57765cd0000000000010000018bcfe568000000018bcfe56800ffffffffffffffffff"
    "ffffffffff000000025a000000180001000167000174000000003600030000000000000014000000030003776879000001"
    "8bcfe568000054000002180001000167000174000000013000030000000000000007ffffffff00000000018bcfe5680000"
)
"""A batch of two commits, recorded from a broker of the version before topic ids."""
SINCE = bytes.fromhex(
    "0000000000000000000000c0ffffffff0273b383b70000000000010000018bcfe568000000018bcfe56800ffffffffffffffffff"
    "ffffffffff000000028e010000001800010001670001740000000036000300000000000000140000000300037768790000018b"
    "cfe568000210746f7069632e69642000112233445566778899aabbccddeeff88010000021800010001670001740000000130"
    "00030000000000000007ffffffff00000000018bcfe568000210746f7069632e69642000112233445566778899aabbccddeeff"
)
"""The same commits of a topic with an id. A broker of the earlier version was seen to read both from it."""
ID = TopicId("00112233445566778899aabbccddeeff")
AT_MS = 1_700_000_000_000


@pytest.mark.parametrize(("batch", "topic_id"), [(BEFORE, NO_TOPIC_ID), (SINCE, ID)])
def test_commits_of_both_versions_are_read(batch: bytes, topic_id: TopicId) -> None:
    """In a rolling upgrade a partition of the offsets topic is led by brokers of both versions in turn."""
    stage = Stage()
    for header in iterate(batch):
        for record in decode_batch(batch, header):
            stage.core.load(record.key or b"", record.value, record.timestamp, record.headers)
    asked = OffsetFetch("g")
    assert stage.answer(stage.ask(asked), dict) == {
        partition(0, "t"): CommittedOffset(20, 3, "why", AT_MS, topic_id),
        partition(1, "t"): CommittedOffset(7, -1, "", AT_MS, topic_id),
    }


@pytest.mark.parametrize(("batch", "topic_id"), [(BEFORE, NO_TOPIC_ID), (SINCE, ID)])
def test_commits_are_written_so_that_brokers_of_both_versions_read_them(
    batch: bytes, topic_id: TopicId
) -> None:
    commits = {
        partition(0, "t"): CommittedOffset(20, 3, "why", AT_MS, topic_id),
        partition(1, "t"): CommittedOffset(7, -1, "", AT_MS, topic_id),
    }
    records = [
        (encode_offset_key("g", name), encode_offset_value(each), encode_topic_id(each.topic_id), AT_MS)
        for name, each in commits.items()
    ]
    assert pack(records, codec=Codec.NONE).seal() == batch
