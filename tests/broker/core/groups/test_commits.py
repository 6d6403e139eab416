"""Commits: fenced, durable before they are seen, refused one by one (G1, G12)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.broker.core.groups.batches import BATCH_BYTES_MAX
from strandline.broker.core.groups.records import decode_key, decode_offset_value
from strandline.errors import (
    CoordinatorNotAvailable,
    IllegalGeneration,
    InvalidGroupId,
    InvalidRequest,
    InvalidTopic,
    NotCoordinator,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    StrandlineError,
    UnknownMemberId,
)
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import CommittedOffset, OffsetFetch
from tests.broker.core.groups.support.stage import BEGIN_MS, GROUP, LIMITS, SESSION_MS, Stage, partition

P0, P1 = partition(0), partition(1)


# --- fences -------------------------------------------------------------------------------------


def test_a_member_commits_in_its_generation() -> None:
    """CORRECTNESS G1"""
    stage = Stage()
    generation = stage.stable("a")
    token = stage.commit({P0: CommittedOffset(5, 3, "why")}, "a", generation)
    assert stage.answer(token, dict) == {P0: None}
    asked = OffsetFetch(GROUP, (P0, P1))
    fetched = stage.ask(asked)
    kept = CommittedOffset(5, 3, "why", BEGIN_MS + 100_000)
    assert stage.answer(fetched, dict) == {P0: kept, P1: None}
    key, value = stage.log[-1]
    assert value is not None
    assert decode_offset_value(value) == kept
    assert decode_key(key).group == GROUP


def test_a_commit_of_another_generation_or_of_an_unknown_member_is_refused() -> None:
    """CORRECTNESS G1: a member that slept through a rebalance must not undo what the new owner committed."""
    stage = Stage()
    generation = stage.stable("a", "b")
    stage.commit({P0: 9}, "a", generation)
    for member, claimed, error in (
        ("a", generation - 1, IllegalGeneration),
        ("a", generation + 1, IllegalGeneration),
        ("a", -1, IllegalGeneration),
        ("zed", generation, UnknownMemberId),
        ("", generation, UnknownMemberId),
    ):
        assert stage.answer(stage.commit({P0: 1}, member, claimed), error)
    assert stage.committed() == {P0: 9}


def test_a_member_that_expired_cannot_commit() -> None:
    """CORRECTNESS G1"""
    stage = Stage()
    generation = stage.stable("a")
    stage.later(SESSION_MS / 1000)
    assert stage.answer(stage.commit({P0: 1}, "a", generation), UnknownMemberId)
    assert stage.committed() == {}


def test_members_commit_while_they_prepare_a_rebalance_and_not_once_it_completes() -> None:
    """CORRECTNESS G1, G7: what is revoked is committed first; later it may be another's."""
    stage = Stage()
    generation = stage.stable("a", "b")
    b = stage.enter("c")
    assert stage.state == "PreparingRebalance"
    assert stage.answer(stage.commit({P0: 1}, "a", generation), dict) == {P0: None}
    stage.join("a"), stage.join("b")
    assert stage.state == "CompletingRebalance"
    assert stage.answer(stage.commit({P0: 2}, "a", generation), IllegalGeneration)
    assert stage.answer(stage.commit({P0: 2}, "a", generation + 1), RebalanceInProgress)
    assert stage.committed() == {P0: 1}
    assert not stage.waits(b)


def test_only_an_empty_group_takes_commits_from_outside() -> None:
    stage = Stage()
    assert stage.answer(stage.commit({P0: 3}), dict) == {P0: None}
    stage.stable("a")
    assert "only they commit" in stage.answer(stage.commit({P0: 4}), UnknownMemberId).message
    stage.leave("a")
    stage.commit({P0: 5})
    assert stage.committed() == {P0: 5}


def test_a_commit_to_an_unknown_group_creates_it_only_from_outside() -> None:
    stage = Stage()
    assert stage.answer(stage.commit({P0: 1}, "a", 3), IllegalGeneration)
    assert "not known" in stage.describe_error().message
    stage.commit({P0: 1})
    assert (stage.describe().state, stage.generation) == ("Empty", 0)


@pytest.mark.parametrize(("member", "instance"), [("", "static"), ("x", None), ("x", "static")])
@pytest.mark.parametrize("known", [False, True])
def test_outside_a_generation_nothing_about_the_member_is_checked(
    member: str, instance: str | None, known: bool
) -> None:
    """As in Kafka: librdkafka and kafka-python name their `group.instance.id` with partitions that were
    assigned by hand."""
    stage = Stage()
    if known:
        stage.stable("a")
        refused = stage.answer(stage.commit({P0: 1}, member, instance=instance), StrandlineError)
        assert isinstance(refused, UnknownMemberId)
        stage.leave("a")
    assert stage.answer(stage.commit({P0: 2}, member, instance=instance), dict) == {P0: None}
    assert stage.committed() == {P0: 2}


def test_a_commit_keeps_a_session_alive() -> None:
    stage = Stage()
    generation = stage.stable("a")
    for _ in range(4):
        stage.later(SESSION_MS / 1000 - 1)
        stage.commit({P0: 1}, "a", generation)
    assert stage.state == "Stable"


# --- durability ---------------------------------------------------------------------------------


def test_a_commit_is_seen_and_answered_once_it_is_written() -> None:
    """CORRECTNESS G12"""
    stage = Stage()
    generation = stage.stable("a")
    stage.writing = False
    token = stage.commit({P0: 5}, "a", generation)
    assert stage.waits(token)
    assert stage.committed() == {}
    stage.written()
    assert stage.answer(token, dict) == {P0: None}
    assert stage.committed() == {P0: 5}


def test_a_failed_commit_is_an_error_and_keeps_the_earlier_offset() -> None:
    """CORRECTNESS G12: a member that took it for committed would lose or repeat records at the next
    rebalance."""
    stage = Stage()
    generation = stage.stable("a")
    stage.commit({P0: 5}, "a", generation)
    stage.writing = False
    token = stage.commit({P0: 6, P1: 7}, "a", generation)
    stage.failed()
    assert "too few replicas" in stage.answer(token, CoordinatorNotAvailable).message
    assert stage.committed() == {P0: 5}


def test_a_commit_that_is_under_way_when_the_coordinator_moves_is_answered() -> None:
    stage = Stage()
    generation = stage.stable("a")
    stage.writing = False
    token = stage.commit({P0: 5}, "a", generation)
    stage.unload()
    assert stage.answer(token, NotCoordinator)
    write = stage.wanted.pop()
    assert stage.core.appended(write.write_id, None, stage.now) == []


def test_a_commit_larger_than_a_batch_is_written_in_several_behind_one_fence() -> None:
    """CORRECTNESS G1: all of it is handed over at once; none of it could be written after a rebalance."""
    stage = Stage()
    generation = stage.stable("a")
    stage.writing = False
    offsets = {TopicPartition("t" * 200, number): number for number in range(5_000)}
    token = stage.commit(offsets, "a", generation)
    sizes = [sum(len(k) + len(v or b"") for k, v in append.records) for append in stage.wanted]
    assert len(sizes) > 1
    assert max(sizes) <= BATCH_BYTES_MAX
    while stage.wanted:
        assert stage.waits(token)
        stage.written()
    assert stage.answer(token, dict) == dict.fromkeys(offsets)
    assert stage.committed() == offsets


def test_a_commit_of_which_one_batch_failed_says_which_partitions() -> None:
    """CORRECTNESS G12"""
    stage = Stage()
    generation = stage.stable("a")
    stage.writing = False
    offsets = {TopicPartition("t" * 200, number): number for number in range(3_000)}
    token = stage.commit(offsets, "a", generation)
    failed = len(stage.wanted[0].records)
    stage.failed()
    while stage.wanted:
        stage.written()
    results = stage.answer(token, dict)
    assert sum(isinstance(error, CoordinatorNotAvailable) for error in results.values()) == failed
    assert stage.committed() == {name: offsets[name] for name, error in results.items() if error is None}


# --- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "offset", "error", "said"),
    [
        (P1, CommittedOffset(-1), InvalidRequest, "offset -1"),
        (P1, CommittedOffset(2**63), InvalidRequest, "offset 9223372036854775808"),
        (P1, CommittedOffset(1, 2**31), InvalidRequest, "leader epoch 2147483648"),
        (P1, CommittedOffset(1, -2), InvalidRequest, "leader epoch -2"),
        (P1, CommittedOffset(1, 1, "m" * 4_097), OffsetMetadataTooLarge, "4097 bytes, more than 4096"),
        (TopicPartition("t", -1), CommittedOffset(1), InvalidRequest, "partition -1"),
        (TopicPartition("", 0), CommittedOffset(1), InvalidTopic, "topic ''"),
        (TopicPartition("t" * 250, 0), CommittedOffset(1), InvalidTopic, "no topic's name"),
        (TopicPartition("a\tb", 0), CommittedOffset(1), InvalidTopic, "no topic's name"),
    ],
)
def test_an_invalid_offset_does_not_refuse_the_others(
    name: TopicPartition, offset: CommittedOffset, error: type[StrandlineError], said: str
) -> None:
    stage = Stage()
    generation = stage.stable("a")
    results = stage.answer(stage.commit({P0: 1, name: offset}, "a", generation), dict)
    assert results[P0] is None
    assert isinstance(results[name], error)
    assert said in results[name].message
    assert stage.committed() == {P0: 1}
    only = stage.answer(stage.commit({name: offset}, "a", generation), dict)
    assert isinstance(only[name], error)


def test_a_commit_of_too_many_offsets_is_refused_as_a_whole() -> None:
    stage = Stage(replace(LIMITS, offsets_per_commit_max=2))
    generation = stage.stable("a")
    token = stage.commit({partition(n): 1 for n in range(3)}, "a", generation)
    assert stage.answer(token, InvalidRequest).limit == 2
    assert stage.committed() == {}


def test_a_commit_of_nothing_is_done_at_once_and_leaves_no_group() -> None:
    stage = Stage()
    assert stage.answer(stage.commit({}), dict) == {}
    assert "not known" in stage.describe_error().message


def test_nothing_is_committed_in_an_unknown_group() -> None:
    stage = Stage()
    assert stage.committed("other") == {}
    asked = OffsetFetch("other", (P0,))
    token = stage.ask(asked)
    assert stage.answer(token, dict) == {P0: None}
    empty = OffsetFetch("")
    token = stage.ask(empty)
    assert stage.answer(token, InvalidGroupId)
