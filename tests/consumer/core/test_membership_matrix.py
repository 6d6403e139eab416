"""Every input in every state: what a member of a group does, and where it goes (docs/design.md).

`transcripts/matrix.txt` is the table. Its columns are checked for what holds in all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strandline.consumer.core.member_effects import Assign, Effect, Lose, Revoke, SendJoin, SendLeave
from strandline.consumer.core.member_states import LEGAL, State
from strandline.errors import (
    CoordinatorLoading,
    FencedInstanceId,
    IllegalGeneration,
    InvalidRequest,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from strandline.vocabulary.groups import Joined, MemberIdGiven
from strandline.vocabulary.parsing.consumer_protocol import Assignment
from tests.consumer.core.support import golden
from tests.consumer.core.support.member_at import STATES, at
from tests.consumer.core.support.one_member import NOW, One, parts
from tests.consumer.core.support.spoken import spoken

JOINED = Joined("a", 2, "sticky", "z", reason="somebody joined", caused_by="b")


def enforced(one: One) -> list[Effect]:
    """A refused request has no effect."""
    try:
        return one.core.enforced("somebody is ready", NOW)
    except InvalidRequest:
        return []


INPUTS: dict[str, Callable[[One], list[Effect]]] = {
    "subscribed to more": lambda one: one.core.subscribed(["t", "v"], NOW),
    "subscribed to the same": lambda one: one.core.subscribed(one.core.topics, NOW),
    "partition counts changed": lambda one: one.core.metadata_changed({"t": 9}, NOW),
    "metadata": lambda one: one.core.metadata(one.number, {"t": 2}, NOW),
    "coordinator found": lambda one: one.core.coordinator_found(NOW),
    "coordinator lost": lambda one: one.core.coordinator_lost(NOW),
    "backed off": lambda one: one.core.backed_off(one.number, NOW),
    "joined": lambda one: one.core.joined(one.number, JOINED, NOW),
    "member id given": lambda one: one.core.joined(one.number, MemberIdGiven("a"), NOW),
    "join failed: loading": lambda one: one.core.join_failed(one.number, CoordinatorLoading("l"), NOW),
    "join failed: unknown": lambda one: one.core.join_failed(one.number, UnknownMemberId("u"), NOW),
    "join failed: fenced": lambda one: one.core.join_failed(one.number, FencedInstanceId("f"), NOW),
    "join failed: invalid": lambda one: one.core.join_failed(one.number, InvalidRequest("i"), NOW),
    "synced": lambda one: one.core.synced(one.number, Assignment(1, parts("t0 t1")).encode(), NOW),
    "synced: t1 taken": lambda one: one.core.synced(one.number, Assignment(1, parts("t0")).encode(), NOW),
    "sync failed: rebalance": lambda one: one.core.sync_failed(one.number, RebalanceInProgress("r"), NOW),
    "sync failed: moved": lambda one: one.core.sync_failed(one.number, NotCoordinator("m"), NOW),
    "sync failed: unknown": lambda one: one.core.sync_failed(one.number, UnknownMemberId("u"), NOW),
    "heartbeat: rebalance": lambda one: one.refuse("heartbeat", RebalanceInProgress("r")),
    "heartbeat: unknown": lambda one: one.refuse("heartbeat", UnknownMemberId("u")),
    "heartbeat: moved": lambda one: one.refuse("heartbeat", NotCoordinator("m")),
    "heartbeat: fenced": lambda one: one.refuse("heartbeat", FencedInstanceId("f")),
    "commit: rebalance": lambda one: one.refuse("commit", RebalanceInProgress("r")),
    "commit: illegal generation": lambda one: one.refuse("commit", IllegalGeneration("g")),
    "released": lambda one: one.core.released(one.number, NOW),
    "poll overdue": lambda one: one.core.poll_overdue(NOW),
    "polled": lambda one: one.core.polled(NOW),
    "leave": lambda one: one.core.leave("closing", NOW),
    "enforced": enforced,
}


def test_the_table_of_states_and_inputs() -> None:
    """Reviewed as text; an input that a state has no use for does nothing."""
    lines = []
    for state in STATES:
        lines.append(f"== {state}")
        silent = []
        for name, give in INPUTS.items():
            one = at(state)
            before = one.core.state
            effects = give(one)
            if not effects and one.core.state is before:
                silent.append(name)
                continue
            lines.append(f"{name} → {one.core.state.value}")
            lines += [f"    {spoken(effect)}" for effect in effects]
        lines.append(f"nothing: {', '.join(silent)}")
        lines.append("")
    golden.check("matrix", "\n".join(lines))


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", INPUTS)
def test_invariants_hold_under_any_events(state: str, name: str) -> None:
    """KIP-429, CORRECTNESS G5, G10: a step follows the table; ownership changes only with an effect that says
    so; a member that joins or leaves has first taken the steps before it."""
    one = at(state)
    before, owned = one.core.state, one.core.owned
    effects = INPUTS[name](one)
    after = one.core.state
    reachable, frontier = {before}, {before}
    for _ in range(2):  # one input may pass through one state on its way: syncing, stable, joining
        frontier = {following for state in frontier for following in LEGAL[state]}
        reachable |= frontier
    assert after in reachable
    added = {p for e in effects if isinstance(e, Assign) for p in e.added}
    lost = {p for e in effects if isinstance(e, Lose) for p in e.partitions}
    gone = owned - one.core.owned - lost
    assert one.core.owned - owned == added
    assert not gone or name == "released", "only a release or a loss takes a partition away"
    kinds = [type(effect) for effect in effects]
    for last in (SendJoin, SendLeave):
        if last in kinds and Lose in kinds:
            assert kinds.index(Lose) < kinds.index(last)
    if SendLeave in kinds or after in (State.LEFT, State.FATAL, State.OVERDUE):
        assert not one.core.owned
    if Revoke in kinds:
        assert after is State.RELEASING
