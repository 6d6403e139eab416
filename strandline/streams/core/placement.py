"""Decides which member runs, learns, or keeps a standby copy of each task.

The inputs are the members' claims when they join, the outputs their shares. Nothing else has an influence, so
any later leader decides the same (docs/use/streams.md, Kafka's proposal for learner tasks). The rules,
in order:

1. a task goes to its learner once that is ready;
2. any other task stays with its owner; a member that revoked it for the join counts as its owner;
3. without an owner it goes to a ready standby, else to its learner, ready or not, else to any standby;
4. else to the least loaded member, the first of them. A leaving member gets no new task.

Then learners, at most one for each task; existing ones stay:

5. the tasks of leaving members are given in turn to the staying ones, none above its share of all tasks;
6. while loads differ by more than one, the first most loaded member's first task without a learner is
   learned by the first least loaded member.

In both rules the standbys of a task are preferred among equals, ready ones first. Then:

7. each task gets the configured number of standbys among the staying members that neither run nor learn it.
   A member with a copy keeps it: ready ones first, and of these the former standby, the former owner and the
   former learner, in this order. Other copies go to the members with the fewest copies, learned ones
   included, the first of them. While a task is learned and its owner stays, one standby less begins: the
   owner will become one.

A load counts a task that is being learned as its learner's. Members and tasks are ordered by name.

A task that a member still holds is never given to another one, even if its learner is ready: its owner is
notified of the ready learner, revokes the task and requests the next rebalance (CORRECTNESS S1, S5).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from itertools import cycle
from typing import Any, Generic, Protocol, TypeVar


class Ordered(Protocol):
    """A type with an order of names."""

    def __lt__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


Task = TypeVar("Task", bound=Ordered)
"""(subtopology, partition)"""


@dataclass(frozen=True, slots=True)
class Claim(Generic[Task]):
    """A member's report when it joins."""

    assigned: frozenset[Task] = frozenset()
    """Tasks that it runs, also during the rebalance."""
    revoked: frozenset[Task] = frozenset()
    """Tasks that it ran until it joined, and that another member learns. It gets back those that are not
    ready there."""
    learning: Mapping[Task, bool] = field(default_factory=dict)
    """Tasks whose state it restores; True for those that it could run now."""
    standbys: Mapping[Task, bool] = field(default_factory=dict)
    """Tasks of which it keeps a standby copy; True for those that it could run now."""
    leaving: bool = False

    def ready(self, task: Task) -> bool:
        """True if it could now run a task that it does not run."""
        return self.learning.get(task, False) or self.standbys.get(task, False)


@dataclass(frozen=True, slots=True)
class Share(Generic[Task]):
    """A member's part of the placement, ordered by name."""

    assigned: tuple[Task, ...] = ()
    revoked: tuple[Task, ...] = ()
    """Tasks that moved from this member to another one in this round."""
    learning: tuple[Task, ...] = ()
    standbys: tuple[Task, ...] = ()


def place(
    tasks: Iterable[Task],
    members: Mapping[str, Claim[Task]],
    *,
    num_standbys: int = 0,
    stateless: Collection[Task] = frozenset(),
) -> dict[str, Share[Task]]:
    """A share for every member. If no member stays, a task without an owner is not placed.

    There are `num_standbys` copies of each task, fewer if there are too few members, and none of `stateless`
    tasks.
    """
    placing = _Round(tasks, members)
    placing.settle()
    placing.revive()
    placing.deal()
    placing.replace_leaving()
    placing.balance()
    placing.stand_by(num_standbys, stateless)
    return placing.shares()


def learned_tasks(shares: Mapping[str, Share[Task]], members: Mapping[str, Claim[Task]]) -> dict[Task, bool]:
    """The tasks that are learned after a round; True for those that their learners could have run at once."""
    return {task: members[name].ready(task) for name, share in shares.items() for task in share.learning}


class _Round(Generic[Task]):
    """One rebalance, rule by rule."""

    def __init__(self, tasks: Iterable[Task], members: Mapping[str, Claim[Task]]) -> None:
        self._tasks = sorted(set(tasks))
        self._members = {name: members[name] for name in sorted(members)}
        self._staying = {name: None for name, claim in self._members.items() if not claim.leaving}
        self._holders: dict[Task, str] = {}
        self._owners: dict[Task, str] = {}
        self._learners: dict[Task, str] = {}
        """The learner of each task; only tasks that run elsewhere, or nowhere yet."""
        self._runs: dict[Task, str] = {}
        self._copies: dict[Task, list[str]] = {}
        """For each task: the staying members that were standbys, ready ones first."""
        self._learned_by: dict[Task, list[str]] = {}
        """For each task: the staying members that learned it, one or more."""
        self._standbys: dict[Task, list[str]] = {}
        for name, claim in self._members.items():
            for task in sorted(claim.assigned):
                self._holders.setdefault(task, name)
        for name, claim in self._members.items():
            for task in sorted(claim.revoked):
                self._owners.setdefault(task, name)
        self._owners |= self._holders
        for ready in (True, False):
            for name in self._staying:
                for task, is_ready in self._members[name].learning.items():
                    if is_ready is ready:
                        self._learners.setdefault(task, name)
                        self._learned_by.setdefault(task, []).append(name)
                for task, is_ready in self._members[name].standbys.items():
                    if is_ready is ready:
                        self._copies.setdefault(task, []).append(name)

    # --- running tasks ----------------------------------------------------------------------------

    def settle(self) -> None:
        """Rules 1 and 2."""
        for task in self._tasks:
            owner, learner = self._owners.get(task), self._learners.get(task)
            if learner is not None and self._may_take(learner, task):
                self._run(learner, task)
            elif owner is not None:
                self._run(owner, task)

    def revive(self) -> None:
        """Rule 3. If a standby runs the task, its learner continues, and takes it over when it is ready."""
        loads = self._loads()
        for task in self._tasks:
            if task in self._runs:
                continue
            learner = self._learners.get(task)
            copy = self._best_copy(task, loads)
            if copy is not None and (learner is None or self.is_ready(copy, task)):
                self._run(copy, task)
                loads[copy] += learner is None
            elif learner is not None:
                self._run(learner, task)

    def deal(self) -> None:
        """Rule 4."""
        least = [(load, name) for name, load in self._loads().items()]
        heapify(least)
        for task in self._tasks:
            if task not in self._runs and least:
                load, name = least[0]
                self._run(name, task)
                heapreplace(least, (load + 1, name))

    def _best_copy(self, task: Task, loads: Mapping[str, int]) -> str | None:
        """The standby to run a task: a ready one, then the least loaded, then the first."""
        return min(
            self.near(task), key=lambda name: (not self.is_ready(name, task), loads[name], name), default=None
        )

    def _may_take(self, learner: str, task: Task) -> bool:
        return self._members[learner].learning[task] and task not in self._holders

    def is_ready(self, name: str, task: Task) -> bool:
        return self._members[name].ready(task)

    def near(self, task: Task) -> list[str]:
        """The standbys of a task that do not run it."""
        return [name for name in self._copies.get(task, ()) if name != self._runs.get(task)]

    def _run(self, name: str, task: Task) -> None:
        self._runs[task] = name
        if self._learners.get(task) == name:
            del self._learners[task]

    # --- learners ---------------------------------------------------------------------------------

    def replace_leaving(self) -> None:
        """Rule 5."""
        if not self._staying:
            return
        most = -(-len(self._tasks) // len(self._staying))
        loads, turns = self._loads(), cycle(self._staying)
        learnable = self._learnable()
        for name, claim in self._members.items():
            if claim.leaving:
                for task in learnable[name]:
                    learner = next((copy for copy in self.near(task) if loads[copy] < most), None)
                    if learner is None:
                        learner = next(turn for turn in turns if loads[turn] < most)
                    self._learners[task] = learner
                    loads[learner] += 1

    def balance(self) -> None:
        """Rule 6. A member whose load is high only because of tasks that it learns has none to give yet."""
        loads, learnable = self._loads(), self._learnable()
        giving = {name: _Movable(self, learnable[name]) for name in loads}
        while loads:
            least = min(loads.values())
            rich = [name for name, load in loads.items() if load - least > 1]
            movable = (
                (name, task)
                for name in sorted(rich, key=lambda name: -loads[name])
                if (task := giving[name].first(self._learners)) is not None
            )
            giver, task = next(movable, (None, None))
            if giver is None or task is None:
                return
            takers = [name for name, load in loads.items() if load == least]
            taker, task = giving[giver].near(takers, self._learners) or (takers[0], task)
            self._learners[task] = taker
            loads[giver] -= 1
            loads[taker] += 1

    def _learnable(self) -> dict[str, list[Task]]:
        """By member: the tasks that it runs and that no member learns."""
        found: dict[str, list[Task]] = {name: [] for name in self._members}
        for task in self._tasks:
            name = self._runs.get(task)
            if name is not None and task not in self._learners:
                found[name].append(task)
        return found

    def _loads(self) -> dict[str, int]:
        """The loads of the staying members, ordered by name."""
        loads = dict.fromkeys(self._staying, 0)
        for task in self._tasks:
            name = self._learners.get(task) or self._runs.get(task)
            if name in loads:
                loads[name] += 1
        return loads

    # --- standbys ---------------------------------------------------------------------------------

    def stand_by(self, number: int, stateless: Collection[Task]) -> None:
        """Rule 7."""
        if number < 1:
            return
        tasks = [task for task in self._tasks if task not in stateless]
        copies = Counter(self._learners.values())
        for task in tasks:
            self._standbys[task] = self._kept(task)[:number]
            copies.update(self._standbys[task])
        fewest = [(copies[name], name) for name in self._staying]
        heapify(fewest)
        for task in tasks:
            standbys = self._standbys[task]
            will_stand_by = task in self._learners and self._runs.get(task) in self._staying
            others = {self._runs.get(task), self._learners.get(task), *standbys}
            passed = []
            for _ in range(number - len(standbys) - will_stand_by):
                while fewest and fewest[0][1] in others:
                    passed.append(heappop(fewest))
                if not fewest:
                    break
                count, name = heappop(fewest)
                passed.append((count + 1, name))
                standbys.append(name)
            for entry in passed:
                heappush(fewest, entry)

    def _kept(self, task: Task) -> list[str]:
        """Members that have a copy and neither run nor learn the task from now on, the best first."""
        owner = self._owners.get(task)
        ready = [name for name in self._copies.get(task, ()) if self.is_ready(name, task)]
        late = [name for name in self._copies.get(task, ()) if not self.is_ready(name, task)]
        if owner is not None and owner in self._staying:
            ready.append(owner)
        for name in self._learned_by.get(task, ()):
            (ready if self.is_ready(name, task) else late).append(name)
        busy = (self._runs.get(task), self._learners.get(task))
        return [name for name in dict.fromkeys((*ready, *late)) if name not in busy]

    # --- results ----------------------------------------------------------------------------------

    def shares(self) -> dict[str, Share[Task]]:
        assigned: dict[str, list[Task]] = {name: [] for name in self._members}
        revoked: dict[str, list[Task]] = {name: [] for name in self._members}
        learning: dict[str, list[Task]] = {name: [] for name in self._members}
        standbys: dict[str, list[Task]] = {name: [] for name in self._members}
        for task in self._tasks:
            runs, owner = self._runs.get(task), self._owners.get(task)
            if runs is not None:
                assigned[runs].append(task)
            if owner is not None and owner != runs:
                revoked[owner].append(task)
            if (learner := self._learners.get(task)) is not None:
                learning[learner].append(task)
            for name in self._standbys.get(task, ()):
                standbys[name].append(task)
        return {
            name: Share(
                tuple(assigned[name]), tuple(revoked[name]), tuple(learning[name]), tuple(standbys[name])
            )
            for name in self._members
        }


class _Movable(Generic[Task]):
    """The tasks that one member can give away in rule 6. Tasks that are learned meanwhile are skipped."""

    def __init__(self, round_: _Round[Task], tasks: Iterable[Task]) -> None:
        self._tasks = deque(tasks)
        self._ready: dict[str, deque[Task]] = {}
        """Tasks by their ready standbys."""
        self._late: dict[str, deque[Task]] = {}
        """Tasks by their standbys that are not ready."""
        for task in self._tasks:
            for name in round_.near(task):
                copies = self._ready if round_.is_ready(name, task) else self._late
                copies.setdefault(name, deque()).append(task)

    def first(self, learned: Container[Task]) -> Task | None:
        return _first(self._tasks, learned)

    def near(self, takers: Iterable[str], learned: Container[Task]) -> tuple[str, Task] | None:
        """One of the takers that is a standby of a task, with that task."""
        for copies in (self._ready, self._late):
            for name in takers if copies else ():
                if name in copies and (task := _first(copies[name], learned)) is not None:
                    return name, task
        return None


def _first(tasks: deque[Task], learned: Container[Task]) -> Task | None:
    while tasks and tasks[0] in learned:
        tasks.popleft()
    return tasks[0] if tasks else None
