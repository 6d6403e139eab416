"""Every request in every state: its answer, and the state that it leaves behind.

The group has the leader `a` and the followers `b` and `c`, in generation N. Preparing: `c` waits in the
barrier. Completing: all have learned of N. Dead: no request knows the group any longer.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from strandline.broker.core.groups.requests import DescribeGroup
from strandline.broker.core.groups.state.states import GroupState
from strandline.errors import StrandlineError
from strandline.vocabulary.groups import (
    GroupProtocol,
    LeaveGroup,
    LeavingMember,
    OwnershipChange,
    OwnershipKind,
)
from tests.broker.core.groups.support.stage import Stage, partition

NEWS = (GroupProtocol("range", b"news"),)
ASSIGNED = OwnershipChange(OwnershipKind.ASSIGNED, (partition(0),), 1, 1)
WORK = {"a": b"1", "b": b"2", "c": b"3"}


def left(stage: Stage) -> str:
    """The answer is that of the one member, unless all are refused together."""
    request = LeaveGroup("readers", (LeavingMember("b"),))
    token = stage.ask(request)
    if isinstance(stage.answers[token], tuple):
        stage.answers[token] = stage.answers[token][0].error
    return token


def gave(stage: Stage) -> str:
    stage.join("", "d")
    return stage.join("d")


REQUESTS: dict[str, Callable[[Stage, int], str]] = {
    "new member asks": lambda stage, n: stage.join("", "d"),
    "new member joins": lambda stage, n: gave(stage),
    "new instance joins": lambda stage, n: stage.join("", "d", instance="i"),
    "unknown member joins": lambda stage, n: stage.join("zed"),
    "follower joins": lambda stage, n: stage.join("b"),
    "changed follower joins": lambda stage, n: stage.join("b", protocols=NEWS),
    "leader joins": lambda stage, n: stage.join("a"),
    "follower syncs": lambda stage, n: stage.sync("b", n),
    "leader syncs": lambda stage, n: stage.sync("a", n, WORK),
    "stale member syncs": lambda stage, n: stage.sync("b", n - 1),
    "member beats": lambda stage, n: stage.heartbeat("b", n),
    "member beats and waits": lambda stage, n: stage.heartbeat("b", n, wait_ms=1_000),
    "stale member beats": lambda stage, n: stage.heartbeat("b", n - 1),
    "stranger beats": lambda stage, n: stage.heartbeat("zed", n),
    "member leaves": lambda stage, n: left(stage),
    "member commits": lambda stage, n: stage.commit({partition(0): 1}, "b", n),
    "stale member commits": lambda stage, n: stage.commit({partition(0): 1}, "b", n - 1),
    "outsider commits": lambda stage, n: stage.commit({partition(0): 1}),
    "member reports": lambda stage, n: stage.report("b", n, ASSIGNED),
    "somebody describes": lambda stage, n: stage.ask(DescribeGroup("readers")),
    "somebody deletes": lambda stage, n: stage.delete(),
    "offsets are deleted": lambda stage, n: stage.delete_offsets(partition(0)),
}

SAME = "the same"
PREPARING, COMPLETING, STABLE = "PreparingRebalance", "CompletingRebalance", "Stable"

# In the order of Empty, PreparingRebalance, CompletingRebalance, Stable, Dead: what the request is
# answered with, and the state after it.
EXPECTED: dict[str, list[tuple[str, str]]] = {
    "new member asks": [("MemberIdGiven", SAME)] * 4 + [("MemberIdGiven", "Empty")],
    "new member joins": [
        ("Joined", COMPLETING), ("waits", SAME), ("waits", PREPARING), ("waits", PREPARING),
        ("Joined", COMPLETING),
    ],
    "new instance joins": [
        ("Joined", COMPLETING), ("waits", SAME), ("waits", PREPARING), ("waits", PREPARING),
        ("Joined", COMPLETING),
    ],
    "unknown member joins": [("UnknownMemberId", SAME)] * 5,
    "follower joins": [
        ("UnknownMemberId", SAME), ("waits", SAME), ("Joined", SAME), ("Joined", SAME),
        ("UnknownMemberId", SAME),
    ],
    "changed follower joins": [
        ("UnknownMemberId", SAME), ("waits", SAME), ("waits", PREPARING), ("waits", PREPARING),
        ("UnknownMemberId", SAME),
    ],
    "leader joins": [
        ("UnknownMemberId", SAME), ("waits", SAME), ("Joined", SAME), ("waits", PREPARING),
        ("UnknownMemberId", SAME),
    ],
    "follower syncs": [
        ("UnknownMemberId", SAME), ("RebalanceInProgress", SAME), ("waits", SAME), ("bytes", SAME),
        ("UnknownMemberId", SAME),
    ],
    "leader syncs": [
        ("UnknownMemberId", SAME), ("RebalanceInProgress", SAME), ("bytes", STABLE), ("bytes", SAME),
        ("UnknownMemberId", SAME),
    ],
    "stale member syncs": [
        ("UnknownMemberId", SAME), ("IllegalGeneration", SAME), ("IllegalGeneration", SAME),
        ("IllegalGeneration", SAME), ("UnknownMemberId", SAME),
    ],
    "member beats": [
        ("UnknownMemberId", SAME), ("RebalanceInProgress", SAME), ("NoneType", SAME), ("NoneType", SAME),
        ("UnknownMemberId", SAME),
    ],
    "member beats and waits": [
        ("UnknownMemberId", SAME), ("RebalanceInProgress", SAME), ("waits", SAME), ("waits", SAME),
        ("UnknownMemberId", SAME),
    ],
    "stale member beats": [
        ("UnknownMemberId", SAME), ("IllegalGeneration", SAME), ("IllegalGeneration", SAME),
        ("IllegalGeneration", SAME), ("UnknownMemberId", SAME),
    ],
    "stranger beats": [("UnknownMemberId", SAME)] * 5,
    "member leaves": [
        ("UnknownMemberId", SAME), ("NoneType", SAME), ("NoneType", PREPARING), ("NoneType", PREPARING),
        ("UnknownMemberId", SAME),
    ],
    "member commits": [
        ("UnknownMemberId", SAME), ("dict", SAME), ("RebalanceInProgress", SAME), ("dict", SAME),
        ("GenerationOfNoGroup", SAME),
    ],
    "stale member commits": [
        ("UnknownMemberId", SAME), ("IllegalGeneration", SAME), ("IllegalGeneration", SAME),
        ("IllegalGeneration", SAME), ("GenerationOfNoGroup", SAME),
    ],
    "outsider commits": [
        ("dict", SAME), ("UnknownMemberId", SAME), ("UnknownMemberId", SAME), ("UnknownMemberId", SAME),
        ("dict", "Empty"),
    ],
    "member reports": [
        ("UnknownMemberId", SAME), ("NoneType", SAME), ("NoneType", SAME), ("NoneType", SAME),
        ("UnknownMemberId", SAME),
    ],
    "somebody describes": [("DescribedGroup", SAME)] * 4 + [("GroupIdNotFound", SAME)],
    "somebody deletes": [
        ("NoneType", "Dead"), ("NonEmptyGroup", SAME), ("NonEmptyGroup", SAME), ("NonEmptyGroup", SAME),
        ("GroupIdNotFound", SAME),
    ],
    "offsets are deleted": [
        ("dict", SAME), ("NonEmptyGroup", SAME), ("NonEmptyGroup", SAME), ("NonEmptyGroup", SAME),
        ("GroupIdNotFound", SAME),
    ],
}  # fmt: skip


def group_in(state: GroupState) -> tuple[Stage, int]:
    """A stage with the group in that state, and the generation that its members know."""
    stage = Stage()
    generation = stage.stable("a", "b", "c")
    match state:
        case GroupState.EMPTY:
            stage.leave("a", "b", "c")
        case GroupState.PREPARING_REBALANCE:
            stage.join("c", protocols=NEWS)
        case GroupState.COMPLETING_REBALANCE:
            stage.join("a"), stage.join("b"), stage.join("c")
            generation += 1
        case GroupState.DEAD:
            stage.leave("a", "b", "c")
            stage.delete()
    assert state_of(stage) == state.value
    return stage, generation


def state_of(stage: Stage) -> str:
    token = stage.ask(DescribeGroup("readers"))
    answer = stage.answers[token]
    return "Dead" if isinstance(answer, StrandlineError) else str(answer.state)


def test_the_matrix_has_every_request() -> None:
    assert EXPECTED.keys() == REQUESTS.keys()


@pytest.mark.parametrize(("request_", "state"), list(product(REQUESTS, GroupState)), ids=str)
def test_each_request_in_each_state(request_: str, state: GroupState) -> None:
    stage, generation = group_in(state)
    answer, after = EXPECTED[request_][list(GroupState).index(state)]
    token = REQUESTS[request_](stage, generation)
    got = "waits" if stage.waits(token) else type(stage.answers[token]).__name__
    assert (got, state_of(stage)) == (answer, state.value if after == SAME else after)
    stage.unload()
    assert not stage.waits(token)
