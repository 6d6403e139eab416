"""A coordinator's state has a bound, and nothing is kept for partitions that do not exist (CORRECTNESS
X6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.broker.core.groups.limits import GroupLimits
from strandline.broker.core.groups.requests import Commit, Report
from strandline.broker.core.groups.state_bytes import StateBytes
from strandline.errors import InvalidRequest, UnknownTopicOrPartition
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import (
    CommittedOffset,
    GroupProtocol,
    Joined,
    LeavingMember,
    MemberIdGiven,
    OffsetCommit,
    OwnershipChange,
    OwnershipKind,
    ReportOwnership,
)
from tests.broker.core.groups.support.stage import GROUP, HOST, LIMITS, SESSION_MS, Stage, partition

SMALL = replace(LIMITS, group_state_bytes_max=64 * 1024, group_members_max=10_000)


def kept(stage: Stage) -> StateBytes:
    return stage.core._turn.state_bytes


def taken(*numbers: int, generation: int = 1) -> OwnershipChange:
    names = tuple(partition(number) for number in numbers)
    return OwnershipChange(OwnershipKind.ASSIGNED, names, 5, generation, "")


def test_an_offset_of_a_missing_partition_is_refused_and_the_others_are_kept() -> None:
    stage = Stage()
    offsets = {partition(0): CommittedOffset(1), partition(9): CommittedOffset(2)}
    request = OffsetCommit(GROUP, "", -1, offsets)
    token = stage.ask(Commit(request, {partition(9)}))
    results = stage.answer(token, dict)
    assert results[partition(0)] is None
    assert isinstance(results[partition(9)], UnknownTopicOrPartition)
    assert stage.committed() == {partition(0): 1}


def test_ownership_of_a_missing_partition_is_neither_kept_nor_published() -> None:
    stage = Stage()
    generation = stage.stable("a")
    request = ReportOwnership(GROUP, "a", generation, (taken(0, 9, generation=generation),))
    stage.ask(Report(request, {partition(9)}))
    assert stage.describe().members[0].owned == (partition(0),)
    assert stage.events[-1].partitions == (partition(0),)


def test_offsets_of_many_groups_stay_within_the_bound() -> None:
    """Known offsets may be committed again; deleting a group makes room."""
    stage = Stage(SMALL)
    results = [
        stage.answer(
            stage.commit({partition(0): CommittedOffset(1, metadata="m" * 900)}, group=f"g{n}"), object
        )
        for n in range(90)
    ]
    refused = [
        r for r in results if isinstance(r, InvalidRequest) or (isinstance(r, dict) and r[partition(0)])
    ]
    assert 20 < len(results) - len(refused) < 40
    assert kept(stage).total <= SMALL.group_state_bytes_max
    assert stage.answer(stage.commit({partition(0): 2}, group="g0"), dict) == {partition(0): None}
    stage.delete("g0")
    assert stage.answer(stage.commit({partition(0): 2}, group="new"), dict) == {partition(0): None}


def test_members_stay_within_the_bound() -> None:
    stage = Stage(SMALL)
    large = (GroupProtocol("range", b"x" * 1_000),)
    answers = [stage.answer(stage.join("", f"m{n}", protocols=large), object) for n in range(200)]
    assert all(isinstance(answer, MemberIdGiven) for answer in answers)
    joined = [stage.join("", instance=f"i{n}", protocols=large) for n in range(100)]
    refused = [isinstance(stage.answers.get(token), InvalidRequest) for token in joined]
    assert 10 < refused.count(False) < 50
    assert kept(stage).total <= SMALL.group_state_bytes_max


@pytest.mark.parametrize("limits", [SMALL, replace(LIMITS, groups_max=20)], ids=["bytes", "groups"])
def test_ids_that_nobody_joins_with_lock_no_coordinator(limits: GroupLimits) -> None:
    """One caller asks for ids in many groups. Others still begin groups, join and commit; the group that
    existed only for an id that made room is gone."""
    stage = Stage(limits)
    for n in range(200):
        assert stage.answer(stage.join("", group=f"m{n}"), MemberIdGiven)
    assert len(kept(stage).given) == len(stage.core._groups) == 10
    stage.host = "192.0.2.1"
    assert stage.stable("a") == 1
    assert stage.answer(stage.commit({partition(0): 1}, group="other"), dict) == {partition(0): None}
    stage.later(SESSION_MS / 1000)
    assert not kept(stage).given
    stage.leave("a"), stage.delete(), stage.delete("other")
    assert kept(stage).total == 0


def test_a_group_waits_for_no_id_that_made_room() -> None:
    """Its members would wait for the session timeout of the one that is forgotten."""
    stage = Stage(SMALL)
    stage.join("", "never comes", session_timeout_ms=600_000)
    joined = stage.enter("a")
    assert stage.waits(joined)
    stage.host = "192.0.2.1"
    for n in range(20):
        stage.join("", group=f"m{n}", session_timeout_ms=600_000)
    stage.host = HOST
    assert stage.waits(joined)  # another caller has more
    for n in range(20):
        stage.join("", group=f"h{n}", session_timeout_ms=600_000)
    assert stage.answer(joined, Joined).member == "a"


def test_ownership_that_is_reported_again_and_again_stays_within_the_bound() -> None:
    """Each report is bounded, and so is what they add up to."""
    stage = Stage(replace(LIMITS, offsets_per_commit_max=100))
    generation = stage.stable("a")

    def report(first: int, count: int) -> object:
        names = range(first, first + count)
        return stage.answer(stage.report("a", generation, taken(*names, generation=generation)), object)

    assert report(0, 100) is None
    assert report(0, 100) is None  # what it has already
    assert isinstance(report(100, 1), InvalidRequest)
    both = (taken(*range(60), generation=generation), taken(*range(60), generation=generation))
    assert isinstance(stage.answer(stage.report("a", generation, *both), object), InvalidRequest)
    assert len(stage.describe().members[0].owned) == 100


def test_a_deleted_group_counts_no_bytes() -> None:
    """In any state of a group, deleting it frees all its bytes."""
    stage = Stage()
    generation = stage.stable("a", "b")
    stage.report("a", generation, taken(0, 1, generation=generation))
    stage.commit({partition(0): 1, TopicPartition("t", 1): 2}, "a", generation)
    stage.enter("c")
    stage.join("", "never came")
    before = kept(stage).total
    stage.leave(*(LeavingMember(member) for member in ("a", "b", "c", "never came")))
    assert 0 < kept(stage).total < before
    assert stage.elsewhere().core._turn.state_bytes.total == kept(stage).total
    stage.delete()
    assert kept(stage).total == 0
