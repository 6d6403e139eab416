"""Where replicas lie while a balance is planned: what each broker has, and which single moves are allowed.

A move gives the place of one replica in AR to another broker, so the order of the others stays. It never puts
two replicas of a partition on one broker, and never leaves the partition's replicas less spread over racks.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from strandline.controller.core.placement import ReplicaAssignment
from strandline.ids import BrokerId, TopicPartition


@dataclass(frozen=True, slots=True)
class Placement:
    """One partition as it is: its AR, and the bytes of one replica, 0 if they are not known.

    A partition that is not `movable` counts, but keeps its replicas.
    """

    name: TopicPartition
    replicas: ReplicaAssignment
    bytes: int = 0
    movable: bool = True


@dataclass(slots=True)
class Held:
    """What one broker has of the partitions."""

    replicas: int = 0
    leads: int = 0
    """Partitions of which it is the preferred leader."""
    bytes: int = 0
    movable: dict[ReplicaAssignment, list[tuple[int, int]]] = field(default_factory=dict)
    """Its movable partitions by their sets of replicas, in order of ids: bytes and index of each, in order.
    The same moves are allowed for all partitions of a set."""
    topics: Counter[str] = field(default_factory=Counter)
    """Its replicas of each topic."""
    topics_led: Counter[str] = field(default_factory=Counter)
    """Its preferred leaderships of each topic."""


def nearest(kept: Sequence[tuple[int, int]], wanted_bytes: int) -> Iterator[tuple[int, int]]:
    """The difference in bytes, and the index: the partition whose size is nearest comes first."""
    right = bisect_left(kept, (wanted_bytes, -1))
    left = right - 1
    while left >= 0 or right < len(kept):
        below = wanted_bytes - kept[left][0] if left >= 0 else None
        above = kept[right][0] - wanted_bytes if right < len(kept) else None
        if above is None or (below is not None and below <= above):
            assert below is not None
            yield below, kept[left][1]
            left -= 1
        else:
            yield above, kept[right][1]
            right += 1


class Layout:
    """The planned replicas of all partitions. `brokers` are those to move between, with `racks` of all known
    brokers; a broker whose rack is not known is in a rack of its own."""

    def __init__(
        self, placements: Sequence[Placement], brokers: Collection[BrokerId], racks: Mapping[BrokerId, str]
    ) -> None:
        self.placements = placements
        self.replicas = [list(each.replicas) for each in placements]
        self.held = {broker: Held() for broker in sorted(brokers)}
        self._racks = racks
        self._led_with: dict[tuple[BrokerId, BrokerId], dict[int, None]] = {}
        """Movable partitions that the first broker is preferred to lead, and of which the second is a
        replica."""
        for index in range(len(placements)):
            for broker in placements[index].replicas:
                self._hold(index, broker)
            self._lead(index)

    def is_changed(self, index: int) -> bool:
        return tuple(self.replicas[index]) != self.placements[index].replicas

    def movable(self, broker: BrokerId) -> list[tuple[int, int]]:
        """Bytes and index of each movable partition of a broker, in order."""
        return sorted(each for kept in self.held[broker].movable.values() for each in kept)

    def led_with(self, leader: BrokerId, other: BrokerId) -> Collection[int]:
        """The movable partitions that `leader` is preferred to lead, and `other` could."""
        return self._led_with.get((leader, other), {})

    def may_move(self, replicas: Sequence[BrokerId], source: BrokerId, target: BrokerId) -> bool:
        """True if `target` may take the place of `source` among these."""
        if target in replicas:
            return False
        leaves, joins = self._rack(source), self._rack(target)
        if leaves == joins:
            return True
        racks = [self._rack(broker) for broker in replicas]
        return racks.count(joins) < racks.count(leaves)

    def move(self, index: int, source: BrokerId, target: BrokerId) -> None:
        """Give the place of `source` to `target`."""
        replicas = self.replicas[index]
        self._unlead(index)
        for broker in replicas:
            self._let_go(index, broker)
        replicas[replicas.index(source)] = target
        for broker in replicas:
            self._hold(index, broker)
        self._lead(index)

    def prefer(self, index: int, leader: BrokerId) -> None:
        """Put this replica first in AR."""
        self._unlead(index)
        replicas = self.replicas[index]
        replicas.remove(leader)
        replicas.insert(0, leader)
        self._lead(index)

    def _hold(self, index: int, broker: BrokerId) -> None:
        placement = self.placements[index]
        self._count(placement, broker, 1)
        if placement.movable and broker in self.held:
            kept = self.held[broker].movable.setdefault(self._set_of(index), [])
            insort(kept, (placement.bytes, index))

    def _let_go(self, index: int, broker: BrokerId) -> None:
        """Of a movable partition."""
        placement = self.placements[index]
        self._count(placement, broker, -1)
        if broker in self.held:
            movable, replicas = self.held[broker].movable, self._set_of(index)
            kept = movable[replicas]
            del kept[bisect_left(kept, (placement.bytes, index))]
            if not kept:
                del movable[replicas]

    def _count(self, placement: Placement, broker: BrokerId, by: int) -> None:
        if (held := self.held.get(broker)) is not None:
            held.replicas += by
            held.bytes += by * placement.bytes
            held.topics[placement.name.topic] += by

    def _set_of(self, index: int) -> ReplicaAssignment:
        return tuple(sorted(self.replicas[index]))

    def _lead(self, index: int) -> None:
        leader, *others = self.replicas[index]
        self._count_lead(index, leader, 1)
        if self.placements[index].movable:
            for other in others:
                self._led_with.setdefault((leader, other), {})[index] = None

    def _unlead(self, index: int) -> None:
        leader, *others = self.replicas[index]
        self._count_lead(index, leader, -1)
        for other in others:
            del self._led_with[leader, other][index]

    def _count_lead(self, index: int, leader: BrokerId, by: int) -> None:
        if (held := self.held.get(leader)) is not None:
            held.leads += by
            held.topics_led[self.placements[index].name.topic] += by

    def _rack(self, broker: BrokerId) -> str:
        return self._racks.get(broker, f"of broker {broker}, which is not alive")
