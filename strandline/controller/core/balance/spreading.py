"""Evens out the numbers that brokers have, with the fewest steps.

While a broker has at least two more than another that it can reach, one goes from the first to the second:
directly, or over brokers in between whose numbers stay the same. Once no such path is left, no other spread
is more even ("Semi-matchings for bipartite graphs and load balancing", Harvey, Ladner, Lovász, Tamir, 2006).
The fullest broker gives and the emptiest takes, so a direct step is never made in vain.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import Final, NamedTuple

from strandline.controller.core.balance.layout import Held, Layout, nearest
from strandline.ids import BrokerId

LOOKED_AT_MAX: Final = 200
"""Partitions that are compared for one hop."""

LOOKED_AT_IN_SET_MAX: Final = 50
"""Those of them that have the same replicas."""


class Hop(NamedTuple):
    """One partition, by its index in the layout, goes from a broker to another."""

    partition: int
    source: BrokerId
    target: BrokerId


Find = Callable[[BrokerId, BrokerId, Collection[int]], int | None]
"""The best partition to go from one broker to another, not one of these; None if there is none."""


def spread_replicas(layout: Layout) -> None:
    """Moves replicas until the brokers' numbers of them are even."""
    spread = _Spread(layout, lambda held: held.replicas, lambda *pair: _replica_to_move(layout, *pair))
    while path := spread.path():
        for hop in path:
            layout.move(*hop)
            spread.reopen(layout.replicas[hop.partition])


def spread_leaders(layout: Layout) -> None:
    """Changes the order of replicas until the brokers' numbers of preferred leaders are even."""
    spread = _Spread(layout, lambda held: held.leads, lambda *pair: _leadership_to_move(layout, *pair))
    while path := spread.path():
        for hop in path:
            layout.prefer(hop.partition, hop.target)
            spread.reopen(layout.replicas[hop.partition])


class _Spread:
    def __init__(self, layout: Layout, number: Callable[[Held], int], find: Find) -> None:
        self._held: Mapping[BrokerId, Held] = layout.held
        self._number = number
        self._find = find
        self._closed: defaultdict[BrokerId, set[BrokerId]] = defaultdict(set)
        """Brokers to which nothing can go from the first one, as long as its partitions stay as they are."""

    def path(self) -> list[Hop]:
        """The next step, as hops of different partitions; none if the spread is even."""
        for source in sorted(
            self._held, key=lambda b: (-self._number(self._held[b]), -self._held[b].bytes, b)
        ):
            if found := self._from(source):
                return found
        return []

    def reopen(self, replicas: Collection[BrokerId]) -> None:
        """The partition that went has these replicas now."""
        for broker in replicas:
            self._closed.pop(broker, None)

    def _from(self, source: BrokerId) -> list[Hop]:
        """The shortest path to one of the brokers that have the fewest."""
        most = self._number(self._held[source]) - 2
        order = sorted(self._held, key=lambda b: (self._number(self._held[b]), self._held[b].bytes, b))
        if self._number(self._held[order[0]]) > most:
            return []
        waiting: deque[tuple[BrokerId, list[Hop]]] = deque([(source, [])])
        reached = {source}
        while waiting:
            broker, path = waiting.popleft()
            for target in order:
                if target in reached:
                    continue
                index = self._hop(broker, target, [hop.partition for hop in path])
                if index is None:
                    continue
                longer = [*path, Hop(index, broker, target)]
                if self._number(self._held[target]) <= most:
                    return longer
                reached.add(target)
                waiting.append((target, longer))
        return []

    def _hop(self, source: BrokerId, target: BrokerId, used: Collection[int]) -> int | None:
        if target in self._closed[source]:
            return None
        index = self._find(source, target, used)
        if index is None and not used:
            self._closed[source].add(target)
        return index


def _replica_to_move(layout: Layout, source: BrokerId, target: BrokerId, used: Collection[int]) -> int | None:
    """The partition whose topic the source has more of, whose leader is the broker that leads too much or
    does not, and whose size evens the bytes out; in this order."""
    gives, takes = layout.held[source], layout.held[target]
    with_leadership = gives.leads > takes.leads + 1
    wanted_bytes = _bytes_to_move(gives, takes)
    best: tuple[tuple[int, bool, int], int] | None = None
    looked_at = 0
    for replicas, kept in gives.movable.items():
        if not layout.may_move(replicas, source, target):
            continue
        for difference, index in islice(nearest(kept, wanted_bytes), LOOKED_AT_IN_SET_MAX):
            topic = layout.placements[index].name.topic
            rank = (
                max(0, 1 + takes.topics[topic] - gives.topics[topic]),
                (layout.replicas[index][0] == source) != with_leadership,
                difference,
            )
            looked_at += 1
            if index not in used and (best is None or rank < best[0]):
                best = rank, index
            if rank[:2] == (0, False):
                break  # the others of this set are of other sizes
        if looked_at >= LOOKED_AT_MAX:
            break
    return None if best is None else best[1]


def _bytes_to_move(gives: Held, takes: Held) -> int:
    """The size that every replica would have which moves between the two, if their bytes became even."""
    steps = max(1, (gives.replicas - takes.replicas) // 2)
    return max(0, (gives.bytes - takes.bytes) // 2 // steps)


def _leadership_to_move(
    layout: Layout, source: BrokerId, target: BrokerId, used: Collection[int]
) -> int | None:
    """The partition of whose topic the source leads more, and that moves anyway; in this order."""
    gives, takes = layout.held[source], layout.held[target]
    best: tuple[tuple[int, bool], int] | None = None
    for index in islice(layout.led_with(source, target), LOOKED_AT_MAX):
        if index in used:
            continue
        topic = layout.placements[index].name.topic
        rank = max(0, 1 + takes.topics_led[topic] - gives.topics_led[topic]), not layout.is_changed(index)
        if rank == (0, False):
            return index
        if best is None or rank < best[0]:
            best = rank, index
    return None if best is None else best[1]
