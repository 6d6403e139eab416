"""A rebalance that the application asks for (KIP-568)."""

from __future__ import annotations

import pytest

from strandline.consumer.core.member_effects import (
    DelayJoin,
    Effect,
    FindCoordinator,
    NeedMetadata,
    Revoke,
    SendJoin,
    SendSync,
)
from strandline.consumer.core.member_states import State
from strandline.errors import IllegalGeneration, InvalidRequest, UnknownMemberId
from strandline.vocabulary.parsing.consumer_protocol import Assignment, Subscription
from tests.consumer.core.support.member_at import at
from tests.consumer.core.support.one_member import NOW, One, parts

WHY = "somebody is ready"


def answered(one: One, effect: Effect, generation: int) -> list[Effect]:
    """The effects after the coordinator and the driver have done this."""
    core = one.core
    match effect:
        case FindCoordinator():
            return core.coordinator_found(NOW)
        case DelayJoin(number):
            return core.backed_off(number, NOW)
        case SendJoin():
            return one.join(one.feed([effect]), generation=generation)
        case NeedMetadata(number):
            return core.metadata(number, {"t": 2}, NOW)
        case Revoke(number):
            return core.released(number, NOW)
        case SendSync(number):
            assigned = tuple(core.owned)
            return core.synced(number, Assignment(1, assigned).encode(), NOW)
        case _:
            return []


def reasons(one: One, effects: list[Effect]) -> list[str]:
    """Why it joins, until it is stable."""
    joins: list[str] = []
    todo = list(effects)
    while todo:
        effect = todo.pop(0)
        if isinstance(effect, SendJoin):
            joins.append(effect.request.reason)
        todo += answered(one, effect, one.core.generation + 1)
        assert len(joins) < 10, joins
    assert one.core.state is State.STABLE
    return joins


@pytest.mark.parametrize("state", ["stable", "stable, leading"])
def test_a_stable_member_joins_again_with_the_reason(state: str) -> None:
    one = at(state)
    effects = one.core.enforced(WHY, NOW)
    assert one.request(effects).reason == WHY
    assert one.said(effects) == Subscription(1, ("t",), parts("t0 t1"), 1, b"for the leader")
    assert reasons(one, effects) == [WHY], "and once"


REBALANCING = [
    "joining, looking for the coordinator",
    "joining",
    "joining, pausing",
    "assigning",
    "syncing",
    "releasing, then joins",
    "releasing, then stays",
    "releasing, before it joins",
]


@pytest.mark.parametrize("state", REBALANCING)
@pytest.mark.parametrize("times", [1, 3])
def test_during_a_rebalance_exactly_one_more_follows(state: str, times: int) -> None:
    """For any number of requests; the active rebalance continues, and is not joined again for that alone."""
    one, other = at(state), at(state)
    before = reasons(other, pending(other))
    for _ in range(times):
        assert one.core.enforced(WHY, NOW) == []
    assert reasons(one, pending(one)) == [*before, WHY]


def pending(one: One) -> list[Effect]:
    """The step that it waits for: its last effect, or the coordinator's answer to its request."""
    return one.effects or [FindCoordinator("")]


@pytest.mark.parametrize("state", ["unjoined", "releasing, then leaves", "left", "fatal"])
def test_outside_the_group_it_is_refused(state: str) -> None:
    one = at(state)
    with pytest.raises(InvalidRequest, match="in no group"):
        one.core.enforced(WHY, NOW)
    assert state.startswith(one.core.state.value)


def test_an_overdue_member_joins_with_the_next_get_call_and_that_is_a_rebalance() -> None:
    one = at("overdue")
    assert one.core.enforced(WHY, NOW) == []
    assert reasons(one, one.core.polled(NOW)) == ["records are asked for again"]


@pytest.mark.parametrize("error", [UnknownMemberId("who?"), IllegalGeneration("old")])
def test_an_expelled_member_does_not_forget_it(error: UnknownMemberId | IllegalGeneration) -> None:
    one = at("syncing")
    assert one.core.enforced(WHY, NOW) == []
    joins = reasons(one, one.core.sync_failed(one.number, error, NOW))
    assert joins == [f"sync refused: {error.message}", WHY]


def test_a_member_that_left_meanwhile_asks_for_no_rebalance() -> None:
    one = One()
    one.begin()
    one.core.enforced(WHY, NOW)
    one.core.leave("closing", NOW)
    assert one.core.state is State.LEFT
    assert reasons(one, one.core.subscribed(["t"], NOW)) == ["subscribed to t"]


def test_a_subscription_that_changed_too_is_joined_for_at_once() -> None:
    one = at("syncing")
    one.core.enforced(WHY, NOW)
    one.core.subscribed(["t", "v"], NOW)
    effects = one.core.synced(one.number, Assignment(1, parts("t0 t1")).encode(), NOW)
    assert one.said(effects).topics == ("t", "v")
    assert reasons(one, effects) == [WHY]
