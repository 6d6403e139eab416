"""The state machine of one member of a stream application's group: running, learned and standby tasks.

A member joins in three steps. It revokes the tasks that other members learn (`giving_up`), so that a ready
learner gets them at once. It reports the rest (`claim`). It takes the assignment (`receive`) and returns the
changes. All its state can be derived from its tasks and stores, so a group that loses a member, even the
leader, continues from the other members' reports (Kafka's proposal for learner tasks).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic

from strandline.streams.core.placement import Claim, Share, Task


@dataclass(frozen=True, slots=True)
class Received(Generic[Task]):
    """The changes of an assignment, each ordered by name.

    A running task that is taken away without having been revoked is not in it: see `StreamMember.taken`.
    """

    promoted: tuple[Task, ...]
    """Learner or standby before, running from now on: the store stays open (CORRECTNESS S2)."""
    started: tuple[Task, ...]
    """Running from now on, after its state has been restored."""
    resumed: tuple[Task, ...]
    """Revoked for the join, and assigned again; no other member ran it."""
    closed: tuple[Task, ...]
    """Revoked for the join, learned, or standby before, and without a role here from now on."""
    learning: tuple[Task, ...]
    """Learned from now on. A former standby copy is kept."""
    standbys: tuple[Task, ...]
    """Standby from now on. The store of a revoked or learned task stays open."""
    asks: bool
    """True if a rebalance must be requested: a task can move to its learner at once (CORRECTNESS S5)."""
    over: bool
    """True for a leaving member that has nothing left. Tasks that the leader does not know, because their
    topic was deleted, do not count."""


class StreamMember(Generic[Task]):
    """Never blocks. Between `giving_up` and `receive` the revoked tasks do not run."""

    def __init__(self) -> None:
        self.assigned: frozenset[Task] = frozenset()
        self.revoked: frozenset[Task] = frozenset()
        """Tasks revoked for the join, until the assignment arrives."""
        self.learning: dict[Task, bool] = {}
        """Learned tasks, and whether each is ready."""
        self.standbys: dict[Task, bool] = {}
        """Standby tasks, and whether each is ready."""
        self.leaving = False
        self._learned: frozenset[Task] = frozenset()
        """Tasks that run here and that another member learns, from the last assignment."""
        self._reported_ready: frozenset[Task] = frozenset()
        """Tasks reported as ready in the last claim."""
        self._reported_leaving = False
        """Whether the last claim said that this member leaves."""

    def leave(self) -> bool:
        """Hand all tasks over from now on; True if a rebalance must be requested."""
        asks, self.leaving = not self.leaving, True
        return asks

    def caught_up(self, task: Task) -> bool:
        """The lag of a learned or standby task is small enough.

        True if a rebalance must be requested; for a standby it need not.
        """
        if task in self.standbys:
            self.standbys[task] = True
        asks = self.learning.get(task) is False
        if asks:
            self.learning[task] = True
        return asks

    def fell_behind(self, task: Task) -> None:
        """A ready copy is no longer ready: the owner writes faster than this member reads."""
        for copies in (self.learning, self.standbys):
            if task in copies:
                copies[task] = False

    def has_no_successor(self) -> bool:
        """True for a leaving member if no other member remains that could learn its tasks. Only an assignment
        that its report of leaving preceded shows that."""
        return self._reported_leaving and bool(self.assigned) and not self._learned

    # --- joining -------------------------------------------------------------------------------

    def giving_up(self) -> tuple[Task, ...]:
        """Stop running these tasks, and commit, before the join: other members learn them."""
        self.revoked |= self.assigned & self._learned
        self.assigned -= self.revoked
        return _ordered(self.revoked)

    def claim(self) -> Claim[Task]:
        claim = Claim(self.assigned, self.revoked, dict(self.learning), dict(self.standbys), self.leaving)
        copies = (*claim.learning, *claim.standbys)
        self._reported_ready = frozenset(task for task in copies if claim.ready(task))
        self._reported_leaving = claim.leaving
        return claim

    def receive(
        self, share: Share[Task], learned: Mapping[Task, bool], *, in_turn: bool = True
    ) -> Received[Task]:
        """Take an assignment. `learned` has all tasks that some member learns now: True for those whose
        learners reported to be ready.

        `in_turn` is False if this member missed a generation: its revoked tasks may have run elsewhere
        meanwhile, so those that return are started and not resumed.
        """
        before, revoked, copies = self.assigned, self.revoked, self.standbys | self.learning
        learned_before, kept_before = self.learning.keys(), self.standbys.keys()
        self.assigned = frozenset(share.assigned)
        running = before | self.assigned  # a task that is taken away runs until it has been stopped
        self.learning = {task: copies.get(task, False) for task in share.learning if task not in running}
        # A task that ran here has its complete state; only its next owner writes more.
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
            or any(self.learning[task] and task not in self._reported_ready for task in new_learning),
            over=self.leaving and not self.assigned,
        )

    # --- losses -----------------------------------------------------------------------------------

    def taken(self, tasks: Iterable[Task]) -> None:
        """These tasks were stopped and committed, because the group or the consumer took them away. Tasks
        revoked for the join stay so."""
        self.assigned = self.assigned.difference(tasks)

    def lost(self) -> tuple[Task, ...]:
        """The group continued without this member: others may run its running and its revoked tasks.

        Learned and standby tasks stay. Returns the tasks that it ran and had revoked.
        """
        lost = self.assigned | self.revoked
        self.assigned = self.revoked = self._learned = frozenset()
        return _ordered(lost)


def _ordered(tasks: Iterable[Task]) -> tuple[Task, ...]:
    return tuple(sorted(tasks))
