"""Decides which brokers get the replicas of a new topic.

Three things are kept even, in this order: leaders over brokers, the replicas of one partition over racks,
and replicas over brokers. A fourth follows from the order of the followers: the leaderships of a broker
that dies move to many others, not to one neighbour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from strandline.ids import BrokerId
from strandline.vocabulary.metadata import Endpoint

ReplicaAssignment = tuple[BrokerId, ...]
"""AR of one partition: the preferred leader first."""


def place(
    brokers: Sequence[Endpoint],
    *,
    partitions: int,
    replication_factor: int,
    first: int,
    load: Mapping[BrokerId, int],
) -> tuple[ReplicaAssignment, ...]:
    """The assignment of each partition, in order.

    `first` is the number of partitions that were placed before: preferred leaders rotate from there,
    so that many small topics are as even as one large topic. `load` is the number of replicas that each
    broker already has; it decides, roughly, only between brokers that this topic would use alike.

    Over the brokers of one topic, leaders differ by at most one. So do replicas; with racks of the same
    size by at most two, since a partition's spread over racks comes first; with racks of different sizes
    the brokers of a small rack get more. A broker without a rack is in the rack "".

    Raises ValueError if there are fewer brokers than replicas.
    """
    if not 1 <= replication_factor <= len(brokers):
        raise ValueError(f"{replication_factor} replicas on {len(brokers)} brokers")
    order = _alternating(brokers)
    placer = _TopicPlacer(order, first, partitions, load)
    return tuple(placer.next_partition(replication_factor) for _ in range(partitions))


def _alternating(brokers: Sequence[Endpoint]) -> list[Endpoint]:
    """Brokers from alternating racks: the first of each, the second of each, and so on."""
    racks: dict[str, list[Endpoint]] = {}
    for broker in sorted(brokers, key=lambda b: (b.rack, b.id)):
        racks.setdefault(broker.rack, []).append(broker)
    return [broker for turn in zip_longest(*racks.values()) for broker in turn if broker is not None]


class _TopicPlacer:
    """Places the partitions of one topic, one after the other."""

    def __init__(
        self, order: list[Endpoint], first: int, partitions: int, load: Mapping[BrokerId, int]
    ) -> None:
        self._ids = [BrokerId(broker.id) for broker in order]
        self._racks = {BrokerId(broker.id): broker.rack for broker in order}
        self._position = {broker: position for position, broker in enumerate(self._ids)}
        self._load = load
        self._next = first
        # Leaders are fixed beforehand. `_leads` counts down to the leaderships that are not placed yet, and
        # `_replicas` includes them from the start: a future leader does not get too many followers.
        self._leads = Counter(self._leader(number) for number in range(first, first + partitions))
        self._replicas = Counter(self._leads)

    def next_partition(self, replication_factor: int) -> ReplicaAssignment:
        number, self._next = self._next, self._next + 1
        leader = self._leader(number)
        self._leads[leader] -= 1
        followers: list[BrokerId] = []
        used = Counter({self._racks[leader]: 1})
        while len(followers) < replication_factor - 1:
            candidates = (b for b in self._ids if b != leader and b not in followers)
            chosen = min(candidates, key=lambda b: self._preference(b, leader, number, used))
            followers.append(chosen)
            used[self._racks[chosen]] += 1
            self._replicas[chosen] += 1
        return (leader, *sorted(followers, key=lambda b: self._distance(b, leader, number)))

    def _leader(self, number: int) -> BrokerId:
        return self._ids[number % len(self._ids)]

    def _preference(
        self, broker: BrokerId, leader: BrokerId, number: int, used: Mapping[str, int]
    ) -> tuple[int, ...]:
        """The lowest is the best follower. Among equals a broker with leaderships to come is taken first: it
        can follow fewer of the remaining partitions, and would be missing at the end. Load is compared in
        coarse steps: exact counts would always choose the same followers for a leader."""
        return (
            used.get(self._racks[broker], 0),
            self._replicas[broker],
            -self._leads[broker],
            self._load.get(broker, 0) // len(self._ids),
            self._distance(broker, leader, number),
        )

    def _distance(self, broker: BrokerId, leader: BrokerId, number: int) -> int:
        """The distance behind the leader, on a circle of the others that shifts by one each time round."""
        brokers = len(self._ids)
        behind = (self._position[broker] - self._position[leader] - 1) % brokers
        return (behind - number // brokers) % (brokers - 1)
