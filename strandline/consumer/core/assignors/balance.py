"""Computes how many partitions of each topic each member gets, so that loads are as even as
subscriptions allow.

Partitions of one topic are interchangeable here; which of them moves is decided later. Loads are
optimal when no *improving path* is left: a chain of members, each passing one partition to the
next, from one member to another that has at least two fewer. If no improving path starts at a
member with the highest load, that member is final, together with all members that its partitions
could reach: those have at most one partition less, and their partitions could only circulate among
them. So each member is finalized once, and the work is bounded by the number of necessary moves (A.
Harvey, R. Ladner, L. Lovász, T. Tamir, "Semi-matchings for bipartite graphs and load balancing",
has the theory).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from strandline.consumer.core.assignors.loads import Loads, numbers_in

Holding = Mapping[int, int]
"""topic → how many of its partitions a member has."""

NOTHING: Final[Holding] = {}

Path = Sequence[tuple[int, int]]
"""A path of moves: which topic is passed to which member, in order."""


def balanced(
    counts: Sequence[int], subscribers: Sequence[int], kept: Sequence[Holding]
) -> list[dict[int, int]]:
    """The number of partitions of each topic for each member.

    `counts` has the partitions of each topic, `subscribers` its members as a set (see `Loads`),
    never empty; `kept` has what each member already owns. To minimize moves, unowned partitions are
    distributed first, as evenly as possible; owned ones move only if the result is not optimal, and
    are given back at the end where that costs nothing. So if any optimal answer contains all of
    `kept`, all of it is kept: a generation that assigns what an earlier one revoked takes nothing
    from any member.
    """
    shares = _Shares(counts, subscribers, kept)
    shares.fill()
    shares.level(floor=kept)
    shares.level(floor=[NOTHING] * len(kept))
    shares.take_back(kept)
    return shares.held


class _Shares:
    def __init__(self, counts: Sequence[int], subscribers: Sequence[int], kept: Sequence[Holding]) -> None:
        self.held = [dict(holding) for holding in kept]
        self._subscribers = subscribers
        self._loads = Loads([sum(holding.values()) for holding in kept])
        self._unowned = list(counts)
        for holding in kept:
            for topic, count in holding.items():
                self._unowned[topic] -= count

    def fill(self) -> None:
        """Give unowned partitions to the least loaded members; topics with the fewest subscribers first."""
        topics = range(len(self._unowned))
        for topic in sorted(topics, key=lambda topic: self._subscribers[topic].bit_count()):
            for _ in range(self._unowned[topic]):
                member = self._loads.least_loaded(self._subscribers[topic])
                self._give(topic, member)
                self._loads.change(member, +1)

    def level(self, floor: Sequence[Holding]) -> None:
        """Move partitions until no improving path is left; every member keeps its `floor`."""
        movable = _Movable(self.held, floor)
        fullest = [(-self._loads[member], member) for member in range(len(self.held))]
        heapify(fullest)
        settled = 0
        while fullest:
            load, member = -fullest[0][0], heappop(fullest)[1]
            if load - self._loads.least < 2:
                return
            if load != self._loads[member] or settled >> member & 1:
                continue
            last = self._pass_on(member, movable)
            if last is None:
                path, reached = self._improving_path(member, movable)
                if not path:
                    settled |= reached
                    continue
                last = self._shift(member, path, movable)
            self._loads.change(member, -1)
            self._loads.change(last, +1)
            for changed in (member, last):
                heappush(fullest, (-self._loads[changed], changed))

    def _pass_on(self, member: int, movable: _Movable) -> int | None:
        """The shortest improving path: pass a partition to a subscriber with at least two fewer,
        and return that member.

        Members are processed from the highest load on. A topic whose subscribers all have too many
        partitions will not be passed on by this member later either, so no topic is tried twice in
        vain. Topics take turns.
        """
        untried = movable.untried[member]
        while untried:
            topic = untried[0]
            if movable.amount(member, topic) > 0:
                other = self._loads.least_loaded(self._subscribers[topic])
                if self._loads[other] <= self._loads[member] - 2:
                    untried.rotate(-1)
                    self._shift(member, [(topic, other)], movable)
                    return other
            untried.popleft()
        return None

    def _improving_path(self, start: int, movable: _Movable) -> tuple[Path, int]:
        """The shortest path to a member with at least two fewer partitions, empty if there is none.

        Also returns the set of members that partitions of `start` can reach.
        """
        via, reached, ends = self._spread(start, movable, until=self._loads.up_to(self._loads[start] - 2))
        return _path(via, start, self._loads.least_loaded(ends)) if ends else [], reached

    def take_back(self, kept: Sequence[Holding]) -> None:
        """Where a member lost a partition that it owned, give it back if an unowned partition can
        move instead.

        Levelling takes the first path that it finds. Each step gives a member back one of its own
        partitions, until none is possible; the loads as a whole stay the same.
        """
        movable = _Movable(self.held, floor=kept)
        found = True
        while found:
            found = False
            for member, own in enumerate(kept):
                while self._take_one_back(member, own, movable):
                    found = True

    def _take_one_back(self, member: int, own: Holding, movable: _Movable) -> bool:
        """Another member gives `member` a partition of a topic of which it lost one, and `member`
        passes another on, along a path that ends at the giver or at a member with one partition
        less than the giver."""
        lost = [topic for topic, count in own.items() if self.held[member].get(topic, 0) < count]
        if not lost:
            return False
        via, reached, _ = self._spread(member, movable, until=0)
        givers = reached
        for load in {self._loads[other] for other in numbers_in(reached)}:
            givers |= self._loads.at(load + 1)
        for topic in lost:
            for giver in numbers_in(givers & self._subscribers[topic]):
                if movable.amount(giver, topic) > 0:
                    ends = reached & (1 << giver) or reached & self._loads.at(self._loads[giver] - 1)
                    end = self._shift(member, _path(via, member, next(numbers_in(ends))), movable)
                    self._shift(giver, [(topic, member)], movable)
                    self._loads.change(giver, -1)
                    self._loads.change(end, +1)
                    return True
        return False

    def _spread(
        self, start: int, movable: _Movable, *, until: int
    ) -> tuple[dict[int, tuple[int, int]], int, int]:
        """Breadth-first search over the members that partitions can be passed to, until one of the
        set `until` is reached.

        Returns, for each reached member, the topic and the giver; the set of all reached members;
        and the reached part of `until`.
        """
        via: dict[int, tuple[int, int]] = {}
        reached, edge = 1 << start, [start]
        while edge:
            following: list[int] = []
            for member in edge:
                for topic in movable.topics(member):
                    new = self._subscribers[topic] & ~reached
                    reached |= new
                    for other in numbers_in(new):
                        via[other] = (topic, member)
                        following.append(other)
            if ends := reached & until:
                return via, reached, ends
            edge = following
        return via, reached, 0

    def _shift(self, start: int, path: Path, movable: _Movable) -> int:
        """Pass one partition on at each step of a path; returns the last member."""
        giver = start
        for topic, taker in path:
            if self.held[giver][topic] == 1:
                del self.held[giver][topic]
            else:
                self.held[giver][topic] -= 1
            self._give(topic, taker)
            movable.untried[taker].append(topic)
            giver = taker
        return giver

    def _give(self, topic: int, member: int) -> None:
        self.held[member][topic] = self.held[member].get(topic, 0) + 1


def _path(via: Mapping[int, tuple[int, int]], start: int, end: int) -> Path:
    path: list[tuple[int, int]] = []
    while end != start:
        topic, giver = via[end]
        path.append((topic, end))
        end = giver
    return path[::-1]


class _Movable:
    """The partitions that members may pass on: those above their floor."""

    def __init__(self, held: Sequence[Holding], floor: Sequence[Holding]) -> None:
        self._held = held
        self._floor = floor
        self.untried = [deque(self.topics(member)) for member in range(len(held))]

    def amount(self, member: int, topic: int) -> int:
        return self._held[member].get(topic, 0) - self._floor[member].get(topic, 0)

    def topics(self, member: int) -> list[int]:
        return [topic for topic in self._held[member] if self.amount(member, topic) > 0]
