"""The states of a group member, every legal transition (KIP-429), and what the member waits for in them.

    unjoined   nothing is subscribed yet
    releasing  the driver drains and commits partitions; then the member joins, stays or leaves
    joining    a JoinGroup is in progress, or waits for the coordinator or for the end of a pause
    assigning  leads the new generation, and waits for the partition counts of its topics
    syncing    a SyncGroup is in progress
    stable     has its assignment
    overdue    left because of missing get calls; the next get call joins again
    left       left on purpose; a new subscription joins again
    fatal      the member cannot stay in the group; the end

An illegal transition is a defect of the state machine and fails fast with the values.
"""

from __future__ import annotations

from enum import Enum
from itertools import count
from typing import Final

from strandline import states


class State(Enum):
    UNJOINED = "unjoined"
    RELEASING = "releasing"
    JOINING = "joining"
    ASSIGNING = "assigning"
    SYNCING = "syncing"
    STABLE = "stable"
    OVERDUE = "overdue"
    LEFT = "left"
    FATAL = "fatal"


_S = State
_ENDS: Final = frozenset({_S.OVERDUE, _S.LEFT, _S.FATAL})

LEGAL: Final[dict[State, frozenset[State]]] = {
    _S.UNJOINED: frozenset({_S.JOINING, _S.LEFT}),
    # A partial release may be followed by a full one, if the member leaves meanwhile.
    _S.RELEASING: frozenset({_S.RELEASING, _S.JOINING, _S.STABLE}) | _ENDS,
    # A join that failed, or was answered with a member id, is retried.
    _S.JOINING: frozenset({_S.JOINING, _S.ASSIGNING, _S.SYNCING, _S.RELEASING}) | _ENDS,
    _S.ASSIGNING: frozenset({_S.SYNCING, _S.JOINING, _S.RELEASING}) | _ENDS,
    _S.SYNCING: frozenset({_S.STABLE, _S.JOINING, _S.RELEASING}) | _ENDS,
    _S.STABLE: frozenset({_S.JOINING, _S.RELEASING}) | _ENDS,
    _S.OVERDUE: frozenset({_S.JOINING, _S.LEFT}),
    _S.LEFT: frozenset({_S.JOINING}),
    _S.FATAL: frozenset(),
}

IN_GROUP: Final = frozenset({_S.RELEASING, _S.JOINING, _S.ASSIGNING, _S.SYNCING, _S.STABLE})
"""The states in which the member takes part in the group, or is about to."""


class Next(Enum):
    """The step after a release."""

    JOIN = "join"
    SEND = "send the join that it preceded"
    STAY = "stay"
    LEAVE = "leave"


class Awaited(Enum):
    """What a member waits for. It is nothing while it joins and its coordinator is searched."""

    NOTHING = "nothing"
    RELEASE = "the end of a release"
    PAUSE = "the end of a pause before a join"
    JOIN = "the answer to a JoinGroup"
    METADATA = "the partition counts of its topics"
    SYNC = "the answer to a SyncGroup"


class Pending:
    """The only answer that counts. Others belong to what the member has left behind (CORRECTNESS G4)."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._number = 0
        self.awaited = Awaited.NOTHING

    def begin(self, awaited: Awaited) -> int:
        """From now on the member waits for this. Returns the number of the answer."""
        self.awaited, self._number = awaited, next(self._numbers)
        return self._number

    def counts(self, awaited: Awaited, number: int) -> bool:
        """Whether this is the answer that the member waits for."""
        return self.awaited is awaited and number == self._number

    def take(self, awaited: Awaited, number: int) -> bool:
        """Whether this answer counts; then the member waits for nothing."""
        if not self.counts(awaited, number):
            return False
        self.drop()
        return True

    def drop(self) -> None:
        """No answer counts any longer."""
        self.awaited = Awaited.NOTHING


class Search:
    """Whether the coordinator is known. One search for it is under way at a time."""

    def __init__(self) -> None:
        self.known = False
        self._under_way = False

    def found(self) -> None:
        self.known, self._under_way = True, False

    def lost(self) -> bool:
        """It is not known from here on. True if a search has to begin."""
        begins, self.known, self._under_way = not self._under_way, False, True
        return begins


def transition(subject: object, current: State, wanted: State) -> State:
    """Returns `wanted` if it may follow `current`. Raises IllegalTransition with the values."""
    return states.transition(f"member {subject}", current, wanted, LEGAL)
