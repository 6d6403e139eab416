"""Checks transitions of state machines against their tables of legal transitions."""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import Enum
from typing import TypeVar

State = TypeVar("State", bound=Enum)


class IllegalTransition(AssertionError):
    """A state machine was asked for a transition that its table does not allow."""


def transition(subject: str, current: State, wanted: State, legal: Mapping[State, Set[State]]) -> State:
    """Returns `wanted` if it may follow `current`. Raises IllegalTransition with the values."""
    if wanted not in legal[current]:
        allowed = ", ".join(sorted(state.value for state in legal[current])) or "nothing"
        raise IllegalTransition(
            f"{subject}: {current.value} → {wanted.value} is illegal; {current.value} allows {allowed}"
        )
    return wanted
