"""Where each task runs, who learns which one to take it over later, and who keeps a copy in case.

What the members say when they join goes in, what each of them gets comes out. Nothing else decides, so
whoever leads the group next comes to the same end (docs/use/streams.md, seed 000). In this order:

1. a task goes to its learner once that says it is ready;
2. any other stays with its owner; who revoked it to join counts as its owner;
3. without an owner it goes to a standby that is ready, else to its learner, ready or not, else to a standby;
4. else to the member with the least load, the first of them. Who is leaving gets nothing new.

Then learners, at most one a task; those under way stay:

5. the tasks of those who leave are dealt to those who stay, in turn, none above its share of all tasks;
6. while loads differ by more than one, the first most loaded member's first task that nobody learns is
   learned by the first least loaded member.

In both, who stands by for a task is taken before others that are as good, those who are ready first. Then:

7. each task gets as many standbys as are wanted, of those who stay and neither run nor learn it. Who has a
   copy keeps it: those who are ready first, and of these who stood by, who ran it and who learned it until
   now. Others go to the member with the fewest copies, learned ones too, the first of them. While a task is
   learned whose owner stays, one less begins: the owner will stand by.

A load counts a task that is being learned as its learner's. Members and tasks go in the order of their names.

A task that somebody still holds is never given to another one, whatever its learner says: its owner hears
that a learner is ready, revokes it and asks for the next rebalance (CORRECTNESS S1, S5).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
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
    standbys: Mapping[Task, bool] = field(default_factory=dict)
    """Tasks of whose state it keeps a copy; True for those that it could run now."""
    leaving: bool = False

    def ready(self, task: Task) -> bool:
        """True if it could run a task now that it does not run."""
        return self.learning.get(task, False) or self.standbys.get(task, False)


@dataclass(frozen=True, slots=True)
class Share(Generic[Task]):
    """What a member gets, in the order of names."""

    assigned: tuple[Task, ...] = ()
    revoked: tuple[Task, ...] = ()
    """What went from this member to another one in this round."""
    learning: tuple[Task, ...] = ()
    standbys: tuple[Task, ...] = ()


def place(
    tasks: Iterable[Task],
    members: Mapping[str, Claim[Task]],
    *,
    num_standbys: int = 0,
    stateless: Collection[Task] = frozenset(),
) -> dict[str, Share[Task]]:
    """A share for every member. Where nobody stays, a task without an owner waits for somebody.

    `num_standbys` copies of each task, fewer where there are fewer members; none of what is `stateless`.
    """
    placing = _Round(tasks, members)
    placing.settle()
    placing.revive()
    placing.deal()
    placing.replace_who_leaves()
    placing.balance()
    placing.stand_by(num_standbys, stateless)
    return placing.shares()


def learned_tasks(shares: Mapping[str, Share[Task]], members: Mapping[str, Claim[Task]]) -> dict[Task, bool]:
    """What is learned after a round; True for what its learner could have run at once."""
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
        """Of each task that is learned: who. Only tasks that run elsewhere, or nowhere yet."""
        self._runs: dict[Task, str] = {}
        self._copies: dict[Task, list[str]] = {}
        """Of each task: who stays and stood by for it, those who are ready first."""
        self._learned_by: dict[Task, list[str]] = {}
        """Of each task: who stays and learned it, one or more."""
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

    # --- who runs what -------------------------------------------------------------------------

    def settle(self) -> None:
        """Rules 1 and 2."""
        for task in self._tasks:
            owner, learner = self._owners.get(task), self._learners.get(task)
            if learner is not None and self._may_take(learner, task):
                self._run(learner, task)
            elif owner is not None:
                self._run(owner, task)

    def revive(self) -> None:
        """Rule 3. Who learns it while a standby runs it goes on, and takes it over when it is ready."""
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
        """Who is ready, and has least to do; the first of them."""
        return min(
            self.near(task), key=lambda name: (not self.is_ready(name, task), loads[name], name), default=None
        )

    def _may_take(self, learner: str, task: Task) -> bool:
        return self._members[learner].learning[task] and task not in self._holders

    def is_ready(self, name: str, task: Task) -> bool:
        return self._members[name].ready(task)

    def near(self, task: Task) -> list[str]:
        """Who stands by for it, and does not run it."""
        return [name for name in self._copies.get(task, ()) if name != self._runs.get(task)]

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
        """Rule 6. Who has much only because it is learning much has nothing to give yet."""
        loads, learnable = self._loads(), self._learnable()
        giving = {name: _Giving(self, learnable[name]) for name in loads}
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
        """By member: what runs there, and nobody learns."""
        found: dict[str, list[Task]] = {name: [] for name in self._members}
        for task in self._tasks:
            name = self._runs.get(task)
            if name is not None and task not in self._learners:
                found[name].append(task)
        return found

    def _loads(self) -> dict[str, int]:
        """Of those who stay, in the order of their names."""
        loads = dict.fromkeys(self._staying, 0)
        for task in self._tasks:
            name = self._learners.get(task) or self._runs.get(task)
            if name in loads:
                loads[name] += 1
        return loads

    # --- who keeps a copy ----------------------------------------------------------------------

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
        """Who has a copy of it, and neither runs nor learns it from now on: the best ones first."""
        owner = self._owners.get(task)
        ready = [name for name in self._copies.get(task, ()) if self.is_ready(name, task)]
        late = [name for name in self._copies.get(task, ()) if not self.is_ready(name, task)]
        if owner is not None and owner in self._staying:
            ready.append(owner)
        for name in self._learned_by.get(task, ()):
            (ready if self.is_ready(name, task) else late).append(name)
        busy = (self._runs.get(task), self._learners.get(task))
        return [name for name in dict.fromkeys((*ready, *late)) if name not in busy]

    # --- what each is told ---------------------------------------------------------------------

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


class _Giving(Generic[Task]):
    """What one member has to give, in rule 6. Its tasks that are learned meanwhile are passed over."""

    def __init__(self, round_: _Round[Task], tasks: Iterable[Task]) -> None:
        self._tasks = deque(tasks)
        self._ready: dict[str, deque[Task]] = {}
        """By who stands by for them and is ready."""
        self._late: dict[str, deque[Task]] = {}
        """By who stands by for them and is not."""
        for task in self._tasks:
            for name in round_.near(task):
                copies = self._ready if round_.is_ready(name, task) else self._late
                copies.setdefault(name, deque()).append(task)

    def first(self, learned: Container[Task]) -> Task | None:
        return _first(self._tasks, learned)

    def near(self, takers: Iterable[str], learned: Container[Task]) -> tuple[str, Task] | None:
        """Of those takers one that stands by for a task, and that."""
        for copies in (self._ready, self._late):
            for name in takers if copies else ():
                if name in copies and (task := _first(copies[name], learned)) is not None:
                    return name, task
        return None


def _first(tasks: deque[Task], learned: Container[Task]) -> Task | None:
    while tasks and tasks[0] in learned:
        tasks.popleft()
    return tasks[0] if tasks else None
