"""The view of a group: members' bytes, lag, owners, and both rebalance protocols in one group."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.ids import NO_TOPIC_ID, TopicId, TopicPartition
from strandline.vocabulary.groups import CommittedOffset
from strandline.vocabulary.log import ListedEpochEnd, ListedOffset
from strandline.vocabulary.parsing.consumer_protocol import Assignment
from tests.consumer.described_groups import described, member, viewed

A, B, C = (TopicPartition("t", number) for number in range(3))


def test_lag_is_counted_from_the_committed_offset_to_the_high_watermark() -> None:
    """USERS 22: lag next to the partition; what is not known is not called nothing."""
    view = viewed(
        described(member("m1", A, B, C)),
        {A: CommittedOffset(7), B: CommittedOffset(12)},
        {A: 10, B: 10, C: 5},
    )
    assert [(p.name, p.committed, p.end, p.lag) for p in view.partitions] == [
        (A, 7, 10, 3),
        (B, 12, 10, 0),
        (C, None, 5, None),
    ]
    assert view.lag is None
    whole = viewed(described(), {A: CommittedOffset(7), B: CommittedOffset(4)}, {A: 10, B: 10})
    assert whole.lag == 9
    assert viewed(described(member("m1"))).lag is None, "it has not got its partitions yet"
    assert viewed(described()).lag is None, "its first member has only got an id"


def test_lag_counts_what_can_still_be_read_and_no_commit_of_another_topic() -> None:
    """DeleteRecords, a log that lost its end, and a topic that was made anew: a lag without a word about them
    would mean nothing."""
    old, new = TopicId("1" * 32), TopicId("2" * 32)

    def seen(name: TopicPartition, start: int, end: int, topic_id: TopicId = NO_TOPIC_ID) -> ListedOffset:
        return ListedOffset(name, offset=end, log_start_offset=start, topic_id=topic_id)

    def view(committed: CommittedOffset, found: ListedOffset) -> tuple[int | None, str]:
        (only,) = viewed(described(), {A: committed}, {A: found}).partitions
        return only.lag, only.note

    assert view(CommittedOffset(10), seen(A, 50, 50)) == (0, "before the start")
    assert view(CommittedOffset(10), seen(A, 30, 50)) == (20, "before the start")
    assert view(CommittedOffset(30), seen(A, 30, 50)) == (20, "")
    assert view(CommittedOffset(100), seen(A, 0, 50)) == (0, "beyond the end")
    assert view(CommittedOffset(50), seen(A, 0, 50)) == (0, "")
    assert view(CommittedOffset(20, topic_id=old), seen(A, 0, 50, new)) == (None, "of a deleted topic")
    assert view(CommittedOffset(20, topic_id=new), seen(A, 0, 50, new)) == (30, "")
    assert view(CommittedOffset(20), seen(A, 0, 50, new)) == (30, "")
    earlier = ListedOffset(A, offset=50)
    assert view(CommittedOffset(20, topic_id=old), earlier) == (30, ""), "a leader of an earlier version"


def test_a_commit_of_records_that_the_log_has_lost_is_marked() -> None:
    """An election with a loss cut the log at 30, and it has grown again: the offset alone shows nothing."""

    def note(offset: int, epoch: int, found: ListedEpochEnd, *, start: int = 0) -> str:
        ends = {A: ListedOffset(A, offset=90, log_start_offset=start)}
        committed = {A: CommittedOffset(offset, leader_epoch=epoch)}
        (only,) = viewed(described(), committed, ends, {A: found}).partitions
        return only.note

    at_30 = ListedEpochEnd(A, epoch=5, end_offset=30)
    assert note(50, 5, at_30) == "of records that were lost"
    assert note(20, 6, at_30) == "of records that were lost", "no record of that epoch is left"
    assert note(30, 5, at_30) == ""
    assert note(50, -1, at_30) == "", "a client that commits no epoch"
    assert note(50, 5, ListedEpochEnd(A)) == "", "the log cannot place it"
    assert note(20, 5, ListedEpochEnd(A, epoch=5, end_offset=40), start=40) == "before the start"


def test_the_owner_is_the_one_that_reported_and_an_assigned_member_is_distinguished() -> None:
    """A member that was given a partition does not own it before it says so (KIP-429: an added partition
    may be on its way to it while it is assigned)."""
    view = viewed(described(member("m1", A), member("m2", B, C, owned=(C,))))
    assert [(p.name, p.owner, p.assigned_to) for p in view.partitions] == [
        (A, "m1", "m1"),
        (B, None, "m2"),
        (C, "m2", "m2"),
    ]


JAVA = bytes.fromhex("000300000001000174ffffffff00000000ffffffffffff")
"""A subscription of Java's consumer: version 3, the topic t, eager or cooperative."""
AIOKAFKA = bytes.fromhex("00000000000100017400000000")


@pytest.mark.parametrize(
    ("state", "protocol", "metadata", "owns"),
    [
        ("Stable", "range", JAVA, True),
        ("Stable", "range", AIOKAFKA, True),
        ("Stable", "cooperative-sticky", JAVA, True),
        ("PreparingRebalance", "range", JAVA, False),
        ("PreparingRebalance", "range", AIOKAFKA, False),
        ("PreparingRebalance", "cooperative-sticky", JAVA, True),
    ],
)
def test_a_kafka_client_owns_what_it_is_assigned(
    state: str, protocol: str, metadata: bytes, owns: bool
) -> None:
    """It reports nothing. A partition is free before Kafka's assignors give it to another member; an eager
    member gives all up before it joins again."""
    assignment = Assignment(0, (A, B)).encode()
    kafka = replace(member("m1", metadata=metadata), assignment=assignment)
    given = described(kafka)
    view = viewed(replace(given, state=state, protocol=protocol))
    assert view.members[0].assigned == (A, B)
    assert view.members[0].owned == ((A, B) if owns else ())
    assert [p.owner for p in view.partitions] == ["m1" if owns else None] * 2


def test_a_partition_that_is_only_committed_is_shown_too() -> None:
    """Offsets outlive members: an operator that deletes or resets a group needs to see them."""
    view = viewed(described(), {A: CommittedOffset(1)}, {A: 2})
    assert [(p.name, p.owner, p.lag) for p in view.partitions] == [(A, None, 1)]


@pytest.mark.parametrize(
    ("versions", "mixed"), [((0, 0), False), ((1, 1), False), ((0, 1), True), ((3, 1), True), ((3, 0), False)]
)
def test_a_group_on_both_protocols_names_the_members_of_each(versions: tuple[int, int], mixed: bool) -> None:
    """KIP-429: a group whose members never agree on a protocol falls into case 3.b forever."""
    first, second = versions
    view = viewed(described(member("m1", version=first), member("m2", version=second)))
    assert view.mixed is mixed
    if mixed:
        assert view.sides == {"eager": ("m1",), "cooperative": ("m2",)}


@pytest.mark.parametrize("metadata", [b"", b"\xff", b"\x00\x01\x7f\xff\xff\xff"])
def test_unreadable_bytes_hide_nothing_else(metadata: bytes) -> None:
    """The coordinator takes any bytes: a member of another kind must not make the group unreadable."""
    view = viewed(described(member("m1", metadata=metadata, owned=(A,)), member("m2", B)))
    strange, other = view.members
    assert (strange.topics, strange.assigned, strange.rebalance_protocol) == (None, None, None)
    assert strange.owned == (A,)
    assert other.assigned == (B,)
    assert not view.mixed


def test_members_of_another_protocol_type_are_not_read_as_consumers() -> None:
    """A group may coordinate anything: its bytes are its own."""
    (only,) = viewed(described(member("m1", A), protocol_type="connect")).members
    assert (only.topics, only.assigned, only.rebalance_protocol) == (None, None, None)
