"""Where each task runs, and who learns which one to take it over later (docs/streams.md, seed 000).

What the members say when they join goes in, what each of them gets comes out. Nothing else decides, so
whoever leads the group next comes to the same end. In this order:

1. a task goes to its learner once that says it is ready;
2. any other stays with its owner; who revoked it to join counts as its owner;
3. without an owner it goes to its learner, ready or not;
4. else to the member with the least load, the first of them. Who is leaving gets nothing new.

Then learners, at most one a task; those under way stay:

5. the tasks of those who leave are dealt to those who stay, in turn, none above its share of all tasks;
6. while loads differ by more than one, the first most loaded member's first task that nobody learns is
   learned by the first least loaded member.

A load counts a task that is being learned as its learner's. Members and tasks go in the order of their names.

A task that somebody still holds is never given to another one, whatever its learner says: the learner asks
again once its owner has revoked it (CORRECTNESS S1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Generic, Protocol, TypeVar


class Ordered(Protocol):
    """What has an order of names."""

    def __lt__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


Task = TypeVar("Task", bound=Ordered)
"""As (subtopology, partition)."""


@dataclass(frozen=True, slots=True)
class Claim(Generic[Task]):
    """What a member says when it joins."""

    assigned: frozenset[Task] = frozenset()
    """Tasks that run on it, and go on while the group rebalances."""
    revoked: frozenset[Task] = frozenset()
    """Tasks that ran on it until it joined, for another one learns them. It gets back what is not ready."""
    learning: Mapping[Task, bool] = field(default_factory=dict)
    """Tasks whose state it restores; True for those that it could run now."""
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class Share(Generic[Task]):
    """What a member gets, in the order of names."""

    assigned: tuple[Task, ...] = ()
    revoked: tuple[Task, ...] = ()
    """What went from this member to another one in this round."""
    learning: tuple[Task, ...] = ()


def place(tasks: Iterable[Task], members: Mapping[str, Claim[Task]]) -> dict[str, Share[Task]]:
    """A share for every member. Where nobody stays, a task without an owner waits for somebody."""
    placing = _Round(tasks, members)
    placing.settle()
    placing.deal()
    placing.replace_who_leaves()
    placing.balance()
    return placing.shares()


class _Round(Generic[Task]):
    """One rebalance, rule by rule."""

    def __init__(self, tasks: Iterable[Task], members: Mapping[str, Claim[Task]]) -> None:
        self._tasks = sorted(set(tasks))
        self._members = {name: members[name] for name in sorted(members)}
        self._staying = [name for name, claim in self._members.items() if not claim.leaving]
        self._holders: dict[Task, str] = {}
        self._owners: dict[Task, str] = {}
        self._learners: dict[Task, str] = {}
        """Of each task that is learned: who. Only tasks that run elsewhere, or nowhere yet."""
        self._runs: dict[Task, str] = {}
        for name, claim in self._members.items():
            for task in sorted(claim.assigned):
                self._holders.setdefault(task, name)
        for name, claim in self._members.items():
            for task in sorted(claim.revoked):
                self._owners.setdefault(task, name)
        self._owners |= self._holders
        for ready in (True, False):
            for name in self._staying:
                for task, is_ready in sorted(self._members[name].learning.items()):
                    if is_ready is ready:
                        self._learners.setdefault(task, name)

    # --- who runs what -------------------------------------------------------------------------

    def settle(self) -> None:
        """Rules 1 to 3."""
        for task in self._tasks:
            owner, learner = self._owners.get(task), self._learners.get(task)
            if learner is not None and (owner is None or self._may_take(learner, task)):
                self._run(learner, task)
            elif owner is not None:
                self._run(owner, task)

    def deal(self) -> None:
        """Rule 4."""
        loads = self._loads()
        for task in self._tasks:
            if task not in self._runs and loads:
                least = min(loads, key=loads.__getitem__)
                self._run(least, task)
                loads[least] += 1

    def _may_take(self, learner: str, task: Task) -> bool:
        return self._members[learner].learning[task] and task not in self._holders

    def _run(self, name: str, task: Task) -> None:
        self._runs[task] = name
        if self._learners.get(task) == name:
            del self._learners[task]

    # --- who learns what -----------------------------------------------------------------------

    def replace_who_leaves(self) -> None:
        """Rule 5."""
        if not self._staying:
            return
        most = -(-len(self._tasks) // len(self._staying))
        loads, turns = self._loads(), cycle(self._staying)
        for name, claim in self._members.items():
            if claim.leaving:
                for task in self._learnable(name):
                    learner = next(turn for turn in turns if loads[turn] < most)
                    self._learn(learner, task)
                    loads[learner] += 1

    def balance(self) -> None:
        """Rule 6. Who has much only because it is learning much has nothing to give yet."""
        loads = self._loads()
        while loads:
            least = min(loads, key=loads.__getitem__)
            movable = (
                (name, task)
                for name in sorted(loads, key=lambda name: -loads[name])
                if loads[name] - loads[least] > 1
                for task in self._learnable(name)
            )
            name, task = next(movable, (least, None))
            if task is None:
                return
            self._learn(least, task)
            loads[name] -= 1
            loads[least] += 1

    def _learn(self, name: str, task: Task) -> None:
        self._learners[task] = name

    def _learnable(self, name: str) -> list[Task]:
        """What runs there, and nobody learns."""
        return [t for t, runs in sorted(self._runs.items()) if runs == name and t not in self._learners]

    def _loads(self) -> dict[str, int]:
        """Of those who stay, in the order of their names."""
        loads = dict.fromkeys(self._staying, 0)
        for task in self._tasks:
            name = self._learners.get(task) or self._runs.get(task)
            if name in loads:
                loads[name] += 1
        return loads

    # --- what each is told ---------------------------------------------------------------------

    def shares(self) -> dict[str, Share[Task]]:
        assigned: dict[str, list[Task]] = {name: [] for name in self._members}
        revoked: dict[str, list[Task]] = {name: [] for name in self._members}
        learning: dict[str, list[Task]] = {name: [] for name in self._members}
        for task in self._tasks:
            runs, owner = self._runs.get(task), self._owners.get(task)
            if runs is not None:
                assigned[runs].append(task)
            if owner is not None and owner != runs:
                revoked[owner].append(task)
            if (learner := self._learners.get(task)) is not None:
                learning[learner].append(task)
        return {
            name: Share(tuple(assigned[name]), tuple(revoked[name]), tuple(learning[name]))
            for name in self._members
        }
