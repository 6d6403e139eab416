"""Single offsets of a group are deleted by request: Kafka's OffsetDelete."""

from __future__ import annotations

from dataclasses import replace

from strandline.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    InvalidRequest,
    NonEmptyGroup,
    NotCoordinator,
    UnknownTopicOrPartition,
)
from tests.broker.core.groups.support.stage import LIMITS, Stage, partition

P0, P1, P2 = partition(0), partition(1), partition(2)


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
    """CORRECTNESS G15: its members read on from there."""
    stage = Stage()
    generation = stage.stable("a")
    stage.commit({P0: 1}, "a", generation)
    assert stage.answer(stage.delete_offsets(P0), NonEmptyGroup)
    assert stage.committed() == {P0: 1}
    stage.leave("a")
    assert stage.answer(stage.delete_offsets(P0), dict) == {P0: None}
    assert stage.committed() == {}


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
