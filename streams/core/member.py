"""One member of a group of stream processors: what it runs, what it learns, and what it says when it joins.

A member joins in three steps. It gives up what others learn (`giving_up`), so that whoever is ready may have
it at once. It says the rest (`claim`). It takes what it is told (`receive`), which is what there is to do.
It keeps nothing that its own tasks and stores do not tell, so a group that loses a member, the leader too,
goes on from what the others say (seed 000).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic

from streams.core.placement import Claim, Share, Task


@dataclass(frozen=True, slots=True)
class Received(Generic[Task]):
    """What an assignment changes, each in the order of names."""

    promoted: tuple[Task, ...]
    """Learned here until now, and run from now on: the store stays open (CORRECTNESS S2)."""
    started: tuple[Task, ...]
    """Run from now on, with a state to be restored first."""
    resumed: tuple[Task, ...]
    """Given up to join, and given back."""
    closed: tuple[Task, ...]
    """Given up to join, or learned, and another one's now."""
    learning: tuple[Task, ...]
    """To be learned from now on."""
    over: bool
    """True for a member that was leaving, and may go: it has nothing left."""


class StreamMember(Generic[Task]):
    """Never waits. Between `giving_up` and `receive` nothing of what is given up runs."""

    def __init__(self) -> None:
        self.assigned: frozenset[Task] = frozenset()
        self.learning: dict[Task, bool] = {}
        """What is learned, and whether it is ready."""
        self.leaving = False
        self._revoked: frozenset[Task] = frozenset()
        self._learned: frozenset[Task] = frozenset()
        """What runs here and is learned by another one, as the last assignment told."""

    def leave(self) -> bool:
        """Hand everything over from now on; True if a rebalance has to be asked for."""
        asks, self.leaving = not self.leaving, True
        return asks

    def caught_up(self, task: Task) -> bool:
        """The lag of a task that is learned is small enough; True if a rebalance has to be asked for."""
        asks = self.learning.get(task) is False
        if asks:
            self.learning[task] = True
        return asks

    def fell_behind(self, task: Task) -> None:
        """It was ready, and is not any more: its owner writes faster than it reads."""
        if task in self.learning:
            self.learning[task] = False

    # --- joining -------------------------------------------------------------------------------

    def giving_up(self) -> tuple[Task, ...]:
        """Stop running these, and commit, before the join: they are learned elsewhere."""
        self._revoked |= self.assigned & self._learned
        self.assigned -= self._revoked
        return tuple(sorted(self._revoked))

    def claim(self) -> Claim[Task]:
        return Claim(self.assigned, self._revoked, dict(self.learning), self.leaving)

    def receive(self, share: Share[Task], learned: Iterable[Task]) -> Received[Task]:
        """Take an assignment; `learned` are tasks that others learn now, of whomever."""
        before, revoked, learning = self.assigned, self._revoked, self.learning
        self.assigned = frozenset(share.assigned)
        self.learning = {task: learning.get(task, False) for task in share.learning}
        self._revoked = frozenset()
        self._learned = self.assigned.intersection(learned)
        new = self.assigned - before - revoked
        gone = (revoked | before | learning.keys()) - self.assigned - self.learning.keys()
        return Received(
            promoted=_ordered(new & learning.keys()),
            started=_ordered(new - learning.keys()),
            resumed=_ordered(self.assigned & revoked),
            closed=_ordered(gone),
            learning=_ordered(self.learning.keys() - learning.keys()),
            over=self.leaving and not self.assigned,
        )


def _ordered(tasks: Iterable[Task]) -> tuple[Task, ...]:
    return tuple(sorted(tasks))
