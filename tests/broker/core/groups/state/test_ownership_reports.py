"""The ownership record: the owners by the members' reports, and the losses of a member that vanishes."""

from __future__ import annotations

from dataclasses import replace

from strandline.broker.core.groups.effects import EventKind
from strandline.errors import IllegalGeneration, InvalidRequest, UnknownMemberId
from strandline.vocabulary.groups import LeavingMember, OwnershipChange, OwnershipKind
from tests.broker.core.groups.support.stage import LIMITS, SESSION_MS, Stage, partition

P0, P1, P2 = partition(0), partition(1), partition(2)


def change(
    kind: OwnershipKind, *partitions: int, at: int = 77, reason: str = "", generation: int = 1
) -> OwnershipChange:
    return OwnershipChange(kind, tuple(partition(n) for n in partitions), at, generation, reason)


def test_ownership_changes_are_published_in_the_members_order_with_its_times() -> None:
    stage = Stage()
    stage.stable("a")
    stage.events.clear()
    token = stage.report(
        "a",
        1,
        change(OwnershipKind.ASSIGNED, 0, 1, 2, at=10),
        change(OwnershipKind.REVOKED, 1, at=20, reason="moves to b"),
        change(OwnershipKind.LOST, 2, at=30),
    )
    assert stage.answers[token] is None
    assert [(e.kind, e.member, e.partitions, e.at_ms, e.reason) for e in stage.events] == [
        (EventKind.ASSIGNED, "a", (P0, P1, P2), 10, ""),
        (EventKind.REVOKED, "a", (P1,), 20, "moves to b"),
        (EventKind.LOST, "a", (P2,), 30, ""),
    ]
    assert stage.describe().members[0].owned == (P0,)


def test_partitions_of_a_vanished_member_are_lost() -> None:
    stage = Stage()
    stage.stable("a")
    stage.report("a", 1, change(OwnershipKind.ASSIGNED, 0, 1), change(OwnershipKind.REVOKED, 0))
    stage.later(SESSION_MS / 1000)
    lost, left = [e for e in stage.events if e.kind in (EventKind.LOST, EventKind.MEMBER_LEFT)]
    assert (lost.kind, lost.member, lost.partitions) == (EventKind.LOST, "a", (P1,))
    assert lost.reason == "not heard of for 10000 ms"
    assert left.kind is EventKind.MEMBER_LEFT


def test_a_member_that_gave_everything_back_loses_nothing() -> None:
    stage = Stage()
    stage.stable("a")
    stage.report("a", 1, change(OwnershipKind.ASSIGNED, 0), change(OwnershipKind.REVOKED, 0))
    stage.leave(LeavingMember("a"))
    assert EventKind.LOST not in stage.kinds()


def test_a_member_may_report_of_an_earlier_generation_but_not_of_one_to_come() -> None:
    """It did it then; the report was only slow."""
    stage = Stage()
    generation = stage.stable("a", "b")
    stage.report("b", generation, change(OwnershipKind.ASSIGNED, 0, generation=1))
    assert stage.events[-1].generation == 1
    wrong = stage.report("b", generation, change(OwnershipKind.ASSIGNED, 1, generation=generation + 1))
    assert stage.answer(wrong, IllegalGeneration)
    assert [member.owned for member in stage.describe().members] == [(), (P0,)]


def test_a_former_member_has_nothing_to_report() -> None:
    """Its partitions were lost when it left: no loss is entered twice."""
    stage = Stage()
    stage.stable("a", "b")
    stage.leave("b")
    published = len(stage.events)
    assert stage.answer(stage.report("b", 2, change(OwnershipKind.LOST, 0)), UnknownMemberId)
    assert len(stage.events) == published


def test_a_report_has_its_bound() -> None:
    stage = Stage(replace(LIMITS, offsets_per_commit_max=2))
    stage.stable("a")
    token = stage.report("a", 1, change(OwnershipKind.ASSIGNED, 0), change(OwnershipKind.ASSIGNED, 0, 1, 2))
    assert stage.answer(token, InvalidRequest).limit == 2
    assert stage.describe().members[0].owned == ()
