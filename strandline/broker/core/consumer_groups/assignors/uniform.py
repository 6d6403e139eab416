"""The assignor `uniform`: all members have as many partitions, give or take one, and keep what they have.

Members with the same subscriptions have numbers that differ by one at most, and no partition moves that need
not. With different subscriptions, none could take one from another that has at least two more.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final

from strandline.broker.core.consumer_groups.assignors.subscribers import Subscriber
from strandline.broker.core.consumer_groups.topics import Topic, partitions_of
from strandline.ids import PartitionKey, TopicId

ROUNDS_MAX: Final = 100
"""Rounds over all partitions, of members with different subscriptions. Each round makes their numbers more
alike; they are done after a few."""


def uniform(
    members: Mapping[str, Subscriber], topics: Mapping[TopicId, Topic]
) -> dict[str, Set[PartitionKey]]:
    order = sorted(members, key=lambda member: (members[member].name, member))
    subscriptions = {frozenset(each.topics & topics.keys()) for each in members.values()}
    read = frozenset[TopicId]().union(*subscriptions)
    partitions = [key for topic_id in sorted(read) for key in partitions_of(topics[topic_id])]
    if len(subscriptions) == 1:
        return _alike(order, members, partitions)
    return _Different(order, members, partitions).assigned()


def _alike(
    order: list[str], members: Mapping[str, Subscriber], partitions: list[PartitionKey]
) -> dict[str, Set[PartitionKey]]:
    each, more = divmod(len(partitions), len(order))
    left = dict.fromkeys(partitions)
    kept: dict[str, list[PartitionKey]] = {}
    # Those that had most keep one more: fewer partitions move.
    for member in sorted(order, key=lambda one: -len(members[one].before & left.keys())):
        had = sorted(members[member].before & left.keys())
        room = each + (more > 0 and len(had) > each)
        more -= room > each
        kept[member] = had[:room]
        for key in kept[member]:
            del left[key]
    free = iter(left)
    for member in order:
        room = each - len(kept[member])
        if room >= 0 and more > 0:
            room, more = room + 1, more - 1
        kept[member] += [key for _, key in zip(range(room), free, strict=False)]
    return {member: frozenset(kept[member]) for member in order}


class _Different:
    """Members with different subscriptions."""

    def __init__(
        self, order: list[str], members: Mapping[str, Subscriber], partitions: list[PartitionKey]
    ) -> None:
        self._readers: dict[TopicId, list[str]] = {
            topic_id: [member for member in order if topic_id in members[member].topics]
            for topic_id in dict.fromkeys(key.topic_id for key in partitions)
        }
        # Partitions that few may have come first: those of many readers even out the rest.
        self._partitions = sorted(partitions, key=lambda key: (len(self._readers[key.topic_id]), key))
        self._owner: dict[PartitionKey, str] = {}
        self._load = dict.fromkeys(order, 0)
        known = dict.fromkeys(partitions)
        for member in order:
            for key in sorted(members[member].before & known.keys()):
                if key.topic_id in members[member].topics and key not in self._owner:
                    self._take(key, member)

    def assigned(self) -> dict[str, Set[PartitionKey]]:
        for key in self._partitions:
            if key not in self._owner:
                self._take(key, self._least(key))
        for _ in range(ROUNDS_MAX):
            if not self._even_out():
                break
        found: dict[str, set[PartitionKey]] = {member: set() for member in self._load}
        for key, member in self._owner.items():
            found[member].add(key)
        return {member: frozenset(keys) for member, keys in found.items()}

    def _even_out(self) -> bool:
        """Moves what another member should have. False if there is nothing to move."""
        moved = False
        for key in self._partitions:
            least, owner = self._least(key), self._owner[key]
            if self._load[owner] >= self._load[least] + 2:
                self._load[owner] -= 1
                self._take(key, least)
                moved = True
        return moved

    def _least(self, key: PartitionKey) -> str:
        return min(self._readers[key.topic_id], key=self._load.__getitem__)

    def _take(self, key: PartitionKey, member: str) -> None:
        self._owner[key] = member
        self._load[member] += 1
