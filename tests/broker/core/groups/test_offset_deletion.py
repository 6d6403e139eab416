"""Single offsets of a group are deleted by request: Kafka's OffsetDelete."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.broker.core.groups.state.subscriptions import NAMES_MAX
from strandline.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidRequest,
    NonEmptyGroup,
    NotCoordinator,
    UnknownTopicOrPartition,
)
from strandline.vocabulary.groups import GroupProtocol
from strandline.vocabulary.parsing.consumer_protocol import (
    DRAFT_VERSION,
    EAGER_VERSION,
    RELEASED_VERSION,
    Subscription,
)
from tests.broker.core.groups.support.stage import LIMITS, Stage, partition

P0, P1, P2 = partition(0), partition(1), partition(2)
LETTERS = partition(0, "letters")


def reading(name: str, *topics: str, version: int = EAGER_VERSION) -> GroupProtocol:
    """What a consumer says under an assignor of this name."""
    return GroupProtocol(name, Subscription(version, topics).encode())


def test_the_named_offsets_go_once_that_is_written_and_others_stay() -> None:
    """CORRECTNESS G12: the next coordinator has what was answered."""
    stage = Stage()
    stage.commit({P0: 1, P1: 2, P2: 3})
    stage.writing = False
    token = stage.delete_offsets(P0, P2)
    assert stage.waits(token) and stage.committed() == {P0: 1, P1: 2, P2: 3}
    stage.written()
    assert stage.answers[token] == {P0: None, P2: None}
    assert stage.committed() == stage.elsewhere().committed() == {P1: 2}


def test_an_offset_that_was_never_committed_is_gone_already() -> None:
    """Unless its partition does not exist: then the name is probably wrong."""
    stage = Stage()
    stage.commit({P0: 1})
    written = len(stage.log)
    token = stage.delete_offsets(P1, P2, missing={P2})
    results = stage.answer(token, dict)
    assert results[P1] is None and isinstance(results[P2], UnknownTopicOrPartition)
    assert stage.committed() == {P0: 1} and len(stage.log) == written


def test_an_offset_of_a_partition_that_is_no_more_can_be_deleted() -> None:
    stage = Stage()
    stage.commit({P0: 1})
    assert stage.answer(stage.delete_offsets(P0, missing={P0}), dict) == {P0: None}
    assert stage.committed() == {}


def test_a_group_with_members_keeps_its_offsets() -> None:
    """CORRECTNESS G15: its members read on from there, and these do not say what they read."""
    stage = Stage()
    generation = stage.stable("a")
    stage.commit({P0: 1}, "a", generation)
    assert stage.answer(stage.delete_offsets(P0), NonEmptyGroup)
    assert stage.committed() == {P0: 1}
    stage.leave("a")
    assert stage.answer(stage.delete_offsets(P0), dict) == {P0: None}
    assert stage.committed() == {}


@pytest.mark.parametrize("version", [EAGER_VERSION, DRAFT_VERSION, RELEASED_VERSION])
def test_of_a_group_with_members_the_offsets_of_topics_that_none_reads_can_be_deleted(version: int) -> None:
    """CORRECTNESS G15: as with Kafka. Consumers of each kind say which topics they read."""
    stage = Stage()
    generation = stage.stable("a", "b", protocols=(reading("range", "words", version=version),))
    stage.commit({P0: 1, LETTERS: 2, partition(1, "letters"): 3}, "a", generation)
    results = stage.answer(stage.delete_offsets(P0, LETTERS), dict)
    assert results[LETTERS] is None and isinstance(results[P0], GroupSubscribedToTopic)
    assert stage.committed() == stage.elsewhere().committed() == {P0: 1, partition(1, "letters"): 3}


def test_a_member_reads_what_it_asks_for_under_any_protocol() -> None:
    """CORRECTNESS G15: the other protocol may be the next one that the group chooses."""
    stage = Stage()
    stage.stable("a", protocols=(reading("range", "words"), reading("sticky", "letters")))
    results = stage.answer(stage.delete_offsets(P0, LETTERS, partition(0, "signs")), dict)
    assert [type(error) for error in results.values()] == [
        GroupSubscribedToTopic, GroupSubscribedToTopic, type(None),
    ]  # fmt: skip


def test_who_takes_the_place_of_a_static_member_reads_what_that_read_too() -> None:
    """CORRECTNESS G15: its assignment was made for that, until it joins again."""
    stage = Stage()
    joined = stage.join("", "old", instance="i", protocols=(reading("range", "words"),))
    stage.sync_all({"old": joined})
    stage.join("", "new", instance="i", protocols=(reading("range", "letters"),))
    assert stage.state == "Stable"
    results = stage.answer(stage.delete_offsets(P0, LETTERS), dict)
    assert {type(error) for error in results.values()} == {GroupSubscribedToTopic}


@pytest.mark.parametrize(
    "metadata", [b"", b"\0\0\0\0", b"\0\0\0\0\0\1\0\2t"], ids=["empty", "no count", "cut off"]
)
def test_a_group_that_does_not_say_what_it_reads_keeps_its_offsets(metadata: bytes) -> None:
    """CORRECTNESS G15"""
    stage = Stage()
    generation = stage.stable("a", protocols=(GroupProtocol("range", metadata),))
    stage.commit({LETTERS: 1}, "a", generation)
    assert stage.answer(stage.delete_offsets(LETTERS), NonEmptyGroup)
    assert stage.committed() == {LETTERS: 1}


def test_members_that_are_no_consumers_are_not_read() -> None:
    """CORRECTNESS G15: their metadata may look like a consumer's."""
    stage = Stage()
    stage.enter("a", protocol_type="connect", protocols=(reading("range", "words"),))
    assert stage.answer(stage.delete_offsets(LETTERS), NonEmptyGroup)


def test_one_turn_reads_a_bounded_number_of_topics() -> None:
    """CORRECTNESS X6: members may name hundreds of thousands."""
    names = [f"{number:x}" for number in range(NAMES_MAX)]
    stage = Stage()
    stage.stable("a", protocols=(reading("range", *names[1:]),))
    assert stage.answer(stage.delete_offsets(LETTERS), dict) == {LETTERS: None}
    stage = Stage()
    stage.stable("a", protocols=(reading("range", *names[1:]), reading("sticky", "words")))
    assert stage.answer(stage.delete_offsets(LETTERS), NonEmptyGroup)


def test_a_group_that_is_not_known_has_no_offsets_to_delete() -> None:
    stage = Stage()
    assert stage.answer(stage.delete_offsets(P0), GroupIdNotFound)


def test_a_commit_in_flight_comes_before_the_deletion() -> None:
    """CORRECTNESS G12: in the order of the log, so here and on the next coordinator the offset is gone."""
    stage = Stage()
    stage.commit({P1: 1})
    stage.writing = False
    committed, deleted = stage.commit({P0: 5}), stage.delete_offsets(P0)
    stage.written()
    stage.written()
    assert stage.answer(committed, dict) == stage.answer(deleted, dict) == {P0: None}
    assert stage.committed() == stage.elsewhere().committed() == {P1: 1}


def test_a_deletion_that_is_not_written_is_an_error() -> None:
    """CORRECTNESS G12"""
    stage = Stage()
    stage.commit({P0: 1})
    stage.writing = False
    failed = stage.delete_offsets(P0, P1)
    stage.failed()
    assert stage.answer(failed, CoordinatorNotAvailable)
    assert stage.committed() == {P0: 1}
    moved = stage.delete_offsets(P0)
    stage.unload()
    assert stage.answer(moved, NotCoordinator)


def test_a_deletion_has_as_many_partitions_as_a_commit_may_have() -> None:
    """CORRECTNESS X6"""
    stage = Stage(replace(LIMITS, offsets_per_commit_max=2))
    stage.commit({P0: 1})
    assert stage.answer(stage.delete_offsets(P0, P1, P2), InvalidRequest).limit == 2
    assert stage.committed() == {P0: 1}


def test_of_a_deletion_in_several_batches_those_written_are_gone() -> None:
    """The others say so, each one alone."""
    long = [partition(number, "t" * 240) for number in range(3_000)]
    stage = Stage()
    for name in long:
        stage.commit({name: 1})
    stage.writing = False
    token = stage.delete_offsets(*long)
    stage.written()
    assert stage.waits(token)
    while stage.wanted:
        stage.failed()
    results = stage.answer(token, dict)
    failed = {name for name, error in results.items() if isinstance(error, CoordinatorNotAvailable)}
    assert 0 < len(failed) < len(long)
    assert set(stage.committed()) == failed
