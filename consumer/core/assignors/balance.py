"""How many partitions of each topic each member gets, so that loads are as even as subscriptions allow.

Partitions of one topic are alike here; which of them moves is decided when it is known how many do. Loads
are as even as can be when no *way down* is left: a chain of members, each handing one partition to the next,
from one member to another that has at least two less. A member that has most, and from which no way down
leads, stays as it is, with all members that its partitions could go to: those have at most one less, and
whatever they have could only go round among them. So each member is settled once, and the work is bounded by
the moves that are needed (A. Harvey, R. Ladner, L. Lovász, T. Tamir, "Semi-matchings for bipartite graphs and
load balancing", has the theory).
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

Way = Sequence[tuple[int, int]]
"""A chain: which topic is handed to whom, in order."""


def balanced(
    counts: Sequence[int], subscribers: Sequence[int], kept: Sequence[Holding]
) -> list[dict[int, int]]:
    """What each member gets.

    `counts` has the partitions of each topic, `subscribers` its members as a set (see `Loads`), never empty;
    `kept` has what each member owns already. So that no more moves than must, what nobody owns is spread
    first, as evenly as that alone can be; only if that is not even enough is what is owned moved, and in the
    end given back where that costs nothing. So, if what is kept is part of any answer that is as even as can
    be, all of it is kept: a generation that gives what an earlier one revoked takes nothing from anybody.
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
        """Give what nobody owns to who has least; where there is less choice first."""
        topics = range(len(self._unowned))
        for topic in sorted(topics, key=lambda topic: self._subscribers[topic].bit_count()):
            for _ in range(self._unowned[topic]):
                member = self._loads.least_loaded(self._subscribers[topic])
                self._give(topic, member)
                self._loads.change(member, +1)

    def level(self, floor: Sequence[Holding]) -> None:
        """Move until no way down is left; every member keeps its `floor`."""
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
            last = self._hand_on(member, movable)
            if last is None:
                way, reached = self._way_down(member, movable)
                if not way:
                    settled |= reached
                    continue
                last = self._shift(member, way, movable)
            self._loads.change(member, -1)
            self._loads.change(last, +1)
            for changed in (member, last):
                heappush(fullest, (-self._loads[changed], changed))

    def _hand_on(self, member: int, movable: _Movable) -> int | None:
        """The shortest way down: hand a partition to a subscriber that has two less, and say who it is.

        While members are taken from the fullest on, a topic whose subscribers all have more than that will
        not be handed on by this member any more. So no topic is tried twice in vain. Topics take turns.
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

    def _way_down(self, start: int, movable: _Movable) -> tuple[Way, int]:
        """The shortest chain to a member with at least two less, empty if there is none.

        Also the set of those whom partitions of `start` can reach.
        """
        came, reached, ends = self._spread(start, movable, until=self._loads.up_to(self._loads[start] - 2))
        return _way(came, start, self._loads.least_loaded(ends)) if ends else [], reached

    def take_back(self, kept: Sequence[Holding]) -> None:
        """Where a member lost what it owned, give it back if something that nobody owns can move instead.

        Levelling takes the first way that it finds. Each time somebody gets back one of its own, until nobody
        can any more, all loads taken together stay as they are.
        """
        movable = _Movable(self.held, floor=kept)
        found = True
        while found:
            found = False
            for member, own in enumerate(kept):
                while self._take_one_back(member, own, movable):
                    found = True

    def _take_one_back(self, member: int, own: Holding, movable: _Movable) -> bool:
        """Somebody gives `member` a partition of a topic that it lost one of, and `member` hands another one
        on, along a chain that ends with the giver or with somebody who has one less than the giver."""
        lost = [topic for topic, count in own.items() if self.held[member].get(topic, 0) < count]
        if not lost:
            return False
        came, reached, _ = self._spread(member, movable, until=0)
        givers = reached
        for load in {self._loads[other] for other in numbers_in(reached)}:
            givers |= self._loads.at(load + 1)
        for topic in lost:
            for giver in numbers_in(givers & self._subscribers[topic]):
                if movable.amount(giver, topic) > 0:
                    ends = reached & (1 << giver) or reached & self._loads.at(self._loads[giver] - 1)
                    end = self._shift(member, _way(came, member, next(numbers_in(ends))), movable)
                    self._shift(giver, [(topic, member)], movable)
                    self._loads.change(giver, -1)
                    self._loads.change(end, +1)
                    return True
        return False

    def _spread(
        self, start: int, movable: _Movable, *, until: int
    ) -> tuple[dict[int, tuple[int, int]], int, int]:
        """Step by step to whom partitions can be handed on, until somebody of the set `until` is met.

        For each who is reached the topic and the giver, the set of all who are, and who of `until` is.
        """
        came: dict[int, tuple[int, int]] = {}
        reached, edge = 1 << start, [start]
        while edge:
            following: list[int] = []
            for member in edge:
                for topic in movable.topics(member):
                    new = self._subscribers[topic] & ~reached
                    reached |= new
                    for other in numbers_in(new):
                        came[other] = (topic, member)
                        following.append(other)
            if ends := reached & until:
                return came, reached, ends
            edge = following
        return came, reached, 0

    def _shift(self, start: int, way: Way, movable: _Movable) -> int:
        """Hand one partition on at each step of a way; its last member is returned."""
        giver = start
        for topic, taker in way:
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


def _way(came: Mapping[int, tuple[int, int]], start: int, end: int) -> Way:
    way: list[tuple[int, int]] = []
    while end != start:
        topic, giver = came[end]
        way.append((topic, end))
        end = giver
    return way[::-1]


class _Movable:
    """What members may hand on: all they hold above their floor."""

    def __init__(self, held: Sequence[Holding], floor: Sequence[Holding]) -> None:
        self._held = held
        self._floor = floor
        self.untried = [deque(self.topics(member)) for member in range(len(held))]

    def amount(self, member: int, topic: int) -> int:
        return self._held[member].get(topic, 0) - self._floor[member].get(topic, 0)

    def topics(self, member: int) -> list[int]:
        return [topic for topic in self._held[member] if self.amount(member, topic) > 0]
