"""The states of a group, and every legal transition.

    Empty                it has no members; it may have offsets
    PreparingRebalance   the members gather for a new generation, or some of them have yet to come
    CompletingRebalance  a generation has begun; its leader has yet to assign
    Stable               every member of the generation may have its assignment
    Dead                 forgotten here: deleted, expired, or coordinated elsewhere now; or one of its turns
                         failed, and it is refused here until it is deleted or coordinated elsewhere

An illegal transition is a defect of the coordinator and fails fast with the values.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from strandline import states


class GroupState(Enum):
    """Named as Kafka's tools name them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_S = GroupState

LEGAL: Final[dict[GroupState, frozenset[GroupState]]] = {
    _S.EMPTY: frozenset({_S.PREPARING_REBALANCE, _S.DEAD}),
    _S.PREPARING_REBALANCE: frozenset({_S.COMPLETING_REBALANCE, _S.EMPTY, _S.DEAD}),
    _S.COMPLETING_REBALANCE: frozenset({_S.STABLE, _S.PREPARING_REBALANCE, _S.DEAD}),
    _S.STABLE: frozenset({_S.PREPARING_REBALANCE, _S.DEAD}),
    _S.DEAD: frozenset(),
}


def transition(group: str, current: GroupState, wanted: GroupState) -> GroupState:
    """`wanted`, if that may follow `current`. Raises IllegalTransition with the values."""
    return states.transition(f"group {group}", current, wanted, LEGAL)
