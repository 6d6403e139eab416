"""One member of a group of stream processors: what it runs, what it learns, and what it says when it joins.

A member joins in three steps. It gives up what others learn (`giving_up`), so that whoever is ready may have
it at once. It says the rest (`claim`). It takes what it is told (`receive`), which is what there is to do.
It keeps nothing that its own tasks and stores do not tell, so a group that loses a member, the leader too,
goes on from what the others say (seed 000).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic

from strandline.streams.core.placement import Claim, Share, Task


@dataclass(frozen=True, slots=True)
class Received(Generic[Task]):
    """What an assignment changes, each in the order of names.

    What runs here and is taken away without having been given up is in none of it: `StreamMember.taken`.
    """

    promoted: tuple[Task, ...]
    """A learner or a standby here until now, and run from now on: the store stays open (CORRECTNESS S2)."""
    started: tuple[Task, ...]
    """Run from now on, with a state to be restored first."""
    resumed: tuple[Task, ...]
    """Given up to join, and given back; nobody else ran it."""
    closed: tuple[Task, ...]
    """Given up to join, or learned, or kept as a standby, and nothing of it is to be here any more."""
    learning: tuple[Task, ...]
    """To be learned from now on. What was a standby here goes on as it is."""
    standbys: tuple[Task, ...]
    """To be kept as standbys from now on. The store of what was given up or learned here stays open."""
    asks: bool
    """True if a rebalance has to be asked for: a task can go over to its learner at once (CORRECTNESS S5)."""
    over: bool
    """True for a member that was leaving, and may go: it has nothing left. What the leader does not know of,
    as its topic was deleted, stays."""


class StreamMember(Generic[Task]):
    """Never waits. Between `giving_up` and `receive` nothing of what is given up runs."""

    def __init__(self) -> None:
        self.assigned: frozenset[Task] = frozenset()
        self.revoked: frozenset[Task] = frozenset()
        """What was given up to join, until the assignment comes."""
        self.learning: dict[Task, bool] = {}
        """What is learned, and whether it is ready."""
        self.standbys: dict[Task, bool] = {}
        """What a copy is kept of, and whether it is ready."""
        self.leaving = False
        self._learned: frozenset[Task] = frozenset()
        """What runs here and is learned by another one, as the last assignment told."""
        self._said_ready: frozenset[Task] = frozenset()
        """In the last claim."""

    def leave(self) -> bool:
        """Hand everything over from now on; True if a rebalance has to be asked for."""
        asks, self.leaving = not self.leaving, True
        return asks

    def caught_up(self, task: Task) -> bool:
        """The lag of a task that is learned, or kept as a standby, is small enough.

        True if a rebalance has to be asked for: nobody waits for a standby.
        """
        if task in self.standbys:
            self.standbys[task] = True
        asks = self.learning.get(task) is False
        if asks:
            self.learning[task] = True
        return asks

    def fell_behind(self, task: Task) -> None:
        """It was ready, and is not any more: its owner writes faster than it reads."""
        for copies in (self.learning, self.standbys):
            if task in copies:
                copies[task] = False

    def stays_alone(self) -> bool:
        """True for one that leaves while nobody stays who could learn what it has."""
        return self.leaving and bool(self.assigned) and not self._learned

    # --- joining -------------------------------------------------------------------------------

    def giving_up(self) -> tuple[Task, ...]:
        """Stop running these, and commit, before the join: they are learned elsewhere."""
        self.revoked |= self.assigned & self._learned
        self.assigned -= self.revoked
        return _ordered(self.revoked)

    def claim(self) -> Claim[Task]:
        said = Claim(self.assigned, self.revoked, dict(self.learning), dict(self.standbys), self.leaving)
        self._said_ready = frozenset(task for task in (*said.learning, *said.standbys) if said.ready(task))
        return said

    def receive(
        self, share: Share[Task], learned: Mapping[Task, bool], *, in_turn: bool = True
    ) -> Received[Task]:
        """Take an assignment. `learned` has the tasks that are learned now, by whomever: True for those that
        their learners said they are ready for.

        `in_turn` is False if a generation went by of which this member heard nothing: what it gave up may
        have run elsewhere meanwhile, so that it is started and not resumed if it comes back.
        """
        before, revoked, copies = self.assigned, self.revoked, self.standbys | self.learning
        learned_before, kept_before = self.learning.keys(), self.standbys.keys()
        self.assigned = frozenset(share.assigned)
        running = before | self.assigned  # what is taken away still runs until it has been stopped
        self.learning = {task: copies.get(task, False) for task in share.learning if task not in running}
        # What ran here has its state whole; who takes it over is the first to write more.
        self.standbys = {
            task: copies.get(task, in_turn and task in revoked)
            for task in share.standbys
            if task not in running
        }
        self.revoked = frozenset()
        self._learned = self.assigned & learned.keys()
        new = self.assigned - before
        resumed = new & revoked if in_turn else frozenset()
        gone = (revoked | copies.keys()) - self.assigned - self.learning.keys() - self.standbys.keys()
        new_learning = self.learning.keys() - learned_before
        return Received(
            promoted=_ordered((new & copies.keys()) - resumed),
            started=_ordered(new - copies.keys() - resumed),
            resumed=_ordered(resumed),
            closed=_ordered(gone),
            learning=_ordered(new_learning),
            standbys=_ordered(self.standbys.keys() - kept_before),
            asks=any(learned[task] for task in self._learned)
            or any(self.learning[task] and task not in self._said_ready for task in new_learning),
            over=self.leaving and not self.assigned,
        )

    # --- what the group takes ------------------------------------------------------------------

    def taken(self, tasks: Iterable[Task]) -> None:
        """These have been stopped and committed, for the group or the consumer took them away. What was given
        up to join stays so."""
        self.assigned = self.assigned.difference(tasks)

    def lost(self) -> tuple[Task, ...]:
        """The group went on without this member: others may run what it ran, and what it had given up.

        What it learns, and what it keeps as a standby, stays. The answer is what it ran and had given up.
        """
        lost = self.assigned | self.revoked
        self.assigned = self.revoked = self._learned = frozenset()
        return _ordered(lost)


def _ordered(tasks: Iterable[Task]) -> tuple[Task, ...]:
    return tuple(sorted(tasks))
