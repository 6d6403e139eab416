"""The judge of what coordinators wrote of a group whose coordinator assigns."""

from __future__ import annotations

from collections.abc import Sequence

from strandline.broker.core.consumer_groups.member import MemberState
from strandline.broker.core.consumer_groups.records import (
    CURRENT,
    EPOCH,
    MEMBER,
    TARGET,
    TARGET_EPOCH,
    ConsumerKey,
    ConsumerRecord,
    ConsumerValue,
    CurrentValue,
    EpochValue,
    MemberValue,
    TargetEpochValue,
    TargetValue,
)
from strandline.broker.core.groups.stored import OffsetRecord
from strandline.ids import PartitionId, PartitionKey, TopicId, TopicPartition
from strandline.vocabulary.groups import CommittedOffset
from strandline_lab.simulation.member_records import CommitTry
from strandline_lab.simulation.workloads.assigned.decisions import Written, findings

TOPIC = TopicId("a" * 32)
ZERO, ONE = (PartitionKey(TOPIC, PartitionId(number)) for number in range(2))
STABLE, UNREVOKED, _ = MemberState


def record(type_: int, value: ConsumerValue | None, subject: str = "") -> ConsumerRecord:
    return ConsumerRecord(ConsumerKey(type_, "g", subject), value)


def epochs(epoch: int, target: int | None = None) -> list[ConsumerRecord]:
    return [
        record(EPOCH, EpochValue(epoch, 0)),
        record(TARGET_EPOCH, TargetEpochValue(epoch if target is None else target, 0)),
    ]


def wants(member: str, *keys: PartitionKey) -> ConsumerRecord:
    return record(TARGET, TargetValue(frozenset(keys)), member)


def has(
    member: str, epoch: int, *keys: PartitionKey, gives: Sequence[PartitionKey] = (), since: int = 1
) -> ConsumerRecord:
    state = UNREVOKED if gives else STABLE
    assigned, revoking = dict.fromkeys(keys, since), dict.fromkeys(gives, since)
    return record(CURRENT, CurrentValue(epoch, epoch, state, assigned, revoking), member)


def commit(note: str, key: PartitionKey = ZERO) -> OffsetRecord:
    name = TopicPartition("t", key.partition)
    return OffsetRecord("g", name, CommittedOffset(7, metadata=note, topic_id=key.topic_id))


def found(*steps: Sequence[ConsumerRecord | OffsetRecord], tries: Sequence[CommitTry] = ()) -> list[str]:
    written = [Written(at, each) for at, step in enumerate(steps) for each in step]
    return [line.partition(": ")[2] for line in findings(written, tries)]


FIRST = [*epochs(1), wants("m", ZERO, ONE), has("m", 1, ZERO, ONE)]


def test_a_partition_that_moves_once_it_was_given_up_is_all_right() -> None:
    """G24, G25, G26"""
    assert not found(
        FIRST,
        [*epochs(2), wants("m", ZERO), wants("n", ONE), has("n", 2)],
        [has("m", 1, ZERO, gives=[ONE])],
        [has("m", 2, ZERO)],
        [has("n", 2, ONE, since=2)],
    )


def test_a_partition_of_two_members_is_found() -> None:
    """G24"""
    moved = [*epochs(2), wants("m", ZERO), wants("n", ONE), has("n", 2, ONE)]
    assert found(FIRST, moved) == ["partition 1 is of m and of n"]
    given_up = has("m", 1, ZERO, gives=[ONE])
    assert found([*FIRST, given_up], moved) == ["partition 1 is of m and of n"], "it has yet to give it up"


def test_a_partition_in_two_targets_is_found() -> None:
    """G24"""
    both = [*epochs(2), has("n", 2), wants("n", ONE)]
    assert found(FIRST, both) == ["partition 1 is in the targets of m and of n"]


def test_epochs_that_fall_are_found() -> None:
    """G25"""
    assert found(epochs(3), epochs(2)) == [
        "the group's epoch fell from 3 to 2",
        "the target's epoch fell from 3 to 2",
    ]
    assert found(epochs(3, 4)) == ["the target has epoch 4, and the group 3"]
    assert found(epochs(3), [has("m", 4)]) == ["member m has epoch 4, and its target 3"]
    assert found(epochs(3), [has("m", 3)], [has("m", 2)]) == ["the epoch of member m fell from 3 to 2"]
    assert not found(epochs(3), [has("m", 3)], [has("m", -2)], [has("m", 0)], [has("m", 3)])


def test_a_partition_that_is_taken_though_it_stays_in_the_target_is_found() -> None:
    """G26"""
    assert found(FIRST, [*epochs(2), has("m", 1, ZERO, gives=[ONE])]) == [
        "member m loses partition 1, which stays in its target"
    ]


def test_a_member_whose_subscription_changes_loses_partitions_before_its_target_does() -> None:
    """G26"""
    said = record(MEMBER, MemberValue(None, None, "", "", ("u",), "", 1, None), "m")
    assert not found(FIRST, [said, has("m", 1, gives=[ZERO, ONE])])


def test_a_target_that_was_never_written_may_have_taken_a_partition() -> None:
    """G26"""
    assert not found(FIRST, [*epochs(3), has("m", 1, ZERO, gives=[ONE])])


def test_commits_are_those_of_members_in_an_epoch_of_theirs() -> None:
    """G27"""
    tries = [CommitTry("m", 1, "old"), CommitTry("m", 2, "new"), CommitTry("gone", 2, "gone")]
    moved = [*epochs(2), wants("m", ZERO), has("m", 2, ZERO)]
    taken = [[commit("new")], [commit("old")], [commit("of no member")]]
    assert not found(FIRST, moved, *taken, tries=tries)
    assert found(FIRST, moved, [commit("old", ONE)], tries=tries) == [
        "a commit of t-1 was taken from member m in epoch 1, which may not commit it"
    ]
    assert len(found(FIRST, moved, [commit("gone")], tries=tries)) == 1
