"""Tables of legal transitions: every state machine here has one, and fails fast when it leaves it."""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import Enum
from typing import TypeVar

State = TypeVar("State", bound=Enum)


class IllegalTransition(AssertionError):
    """Something was told to do what its state does not allow."""


def transition(who: str, current: State, wanted: State, legal: Mapping[State, Set[State]]) -> State:
    """`wanted`, if that may follow `current`. Raises IllegalTransition with the values."""
    if wanted not in legal[current]:
        allowed = ", ".join(sorted(state.value for state in legal[current])) or "nothing"
        raise IllegalTransition(
            f"{who}: {current.value} → {wanted.value} is illegal; {current.value} allows {allowed}"
        )
    return wanted
