"""One group whose coordinator assigns: its members, epochs and target.

Bookkeeping only. The decisions are in `reconciliation`, `target`, `beats` and `departures`, and `change`
collects what they change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from enum import Enum
from itertools import chain
from typing import Final

from strandline.broker.core.consumer_groups.member import ConsumerMember, MemberState
from strandline.broker.core.consumer_groups.topics import Topic, partitions_of, topics_hash
from strandline.ids import PartitionKey, TopicId

CHOSEN_BYTES: Final = 128
"""An estimate of a topic's name among those that a pattern chose."""
NOTHING: Final[Set[PartitionKey]] = frozenset()


class ConsumerGroupState(Enum):
    """Named as Kafka's tools name them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The target is older than the group's epoch."""
    RECONCILING = "Reconciling"
    """A member has not reached its target."""
    STABLE = "Stable"


class ConsumerGroup:
    """`epoch` rises with each change of members, subscriptions or topics, and `target_epoch` follows it: it
    is the epoch for which the target was computed."""

    __slots__ = (
        "_all_seen",
        "_patterns",
        "_subscriptions",
        "caused_by",
        "epoch",
        "members",
        "owners",
        "patterns",
        "reason",
        "state_bytes",
        "statics",
        "stored_hash",
        "target_epoch",
        "targets",
        "topics",
    )

    def __init__(self) -> None:
        self.epoch = 0
        self.target_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.statics: dict[str, str] = {}
        """Members by their instances."""
        self.targets: dict[str, Set[PartitionKey]] = {}
        """By member; one without partitions may be missing."""
        self.owners: dict[PartitionKey, str] = {}
        """The member that has a partition, or has yet to give it up."""
        self.topics: dict[str, Topic | None] = {}
        """The subscribed topics as they were when they were last looked at; None: there is no such topic. A
        name that is missing was not looked at yet."""
        self.stored_hash: int | None = None
        """Of the topics in the log's record, after a coordinator took over and until it has seen them all."""
        self.reason = ""
        """Why the last epoch began, in words."""
        self.caused_by = ""
        self.state_bytes = 0
        self.patterns: dict[str, tuple[str, ...]] = {}
        """The topics that each pattern chose when it was last evaluated."""
        self._subscriptions: Counter[str] = Counter()  # members by the topics that they name
        self._patterns: Counter[str] = Counter()  # members by pattern
        self._all_seen = False  # true once no subscribed topic is missing in `topics`, until one may be

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        reached = all(
            member.state is MemberState.STABLE and member.epoch == self.target_epoch
            for member in self.members.values()
        )
        return ConsumerGroupState.STABLE if reached else ConsumerGroupState.RECONCILING

    # --- members -----------------------------------------------------------------------------

    def put(self, member: ConsumerMember) -> ConsumerMember | None:
        """Adds the member, or what has become of it. Returns what it was before."""
        before = self.members.get(member.member)
        if before is not None:
            self._count(before, -1)
        self.members[member.member] = member
        if member.instance is not None:
            self.statics[member.instance] = member.member
        self._count(member, 1)
        for key in (*member.assigned, *member.revoking):
            self.owners[key] = member.member
        return before

    def remove(self, member_id: str) -> ConsumerMember:
        """Takes the member out, with its target and its partitions."""
        member = self.members.pop(member_id)
        self._count(member, -1)
        self.targets.pop(member_id, None)
        if member.instance is not None and self.statics.get(member.instance) == member_id:
            del self.statics[member.instance]
        return member

    def _count(self, member: ConsumerMember, sign: int) -> None:
        self._all_seen = False
        self.state_bytes += sign * member.state_bytes
        for topic in member.topics:
            self._subscriptions[topic] += sign
            if not self._subscriptions[topic]:
                del self._subscriptions[topic]
        if member.pattern:
            self._patterns[member.pattern] += sign
            if not self._patterns[member.pattern]:
                del self._patterns[member.pattern]
        if sign < 0:
            for key in (*member.assigned, *member.revoking):
                if self.owners.get(key) == member.member:
                    del self.owners[key]

    def is_free(self, key: PartitionKey) -> bool:
        return key not in self.owners

    def target_of(self, member_id: str) -> Set[PartitionKey]:
        return self.targets.get(member_id, NOTHING)

    def all_targeted(self) -> bool:
        """True if each partition of the subscribed topics is in the target of one member."""
        wanted = {key for topic in self.known_topics().values() for key in partitions_of(topic)}
        return wanted == set(chain.from_iterable(self.targets.values()))

    def target_by_instance(self, instance: str) -> Set[PartitionKey]:
        """The target of the member that is this instance."""
        return self.target_of(self.statics.get(instance, ""))

    # --- topics ------------------------------------------------------------------------------

    def subscribed(self) -> list[str]:
        """The topics that members subscribe to, by name."""
        return sorted(self._subscribed())

    def _subscribed(self) -> Set[str]:
        chosen = (self.patterns.get(pattern, ()) for pattern in self._patterns)
        return self._subscriptions.keys() | set(chain.from_iterable(chosen))

    def subscribed_ids(self, member: ConsumerMember) -> frozenset[TopicId]:
        """The topics of one member that exist, as far as they were looked at."""
        names = (*member.topics, *self.patterns.get(member.pattern, ()))
        found = (self.topics.get(name) for name in names)
        return frozenset([topic.topic_id for topic in found if topic is not None])

    def resolve(self, pattern: str, topics: tuple[str, ...] | None) -> None:
        """The topics that a pattern chooses now; None to forget it."""
        self._all_seen = False
        before = self.patterns.pop(pattern, ())
        if topics is not None:
            self.patterns[pattern] = topics
        self.state_bytes += CHOSEN_BYTES * (len(topics or ()) - len(before))

    def unused_patterns(self) -> list[str]:
        """Patterns that no member has now."""
        return [pattern for pattern in self.patterns if pattern not in self._patterns]

    def unseen(self) -> list[str]:
        """Subscribed topics that were not looked at yet. Each heartbeat asks."""
        if self._all_seen:
            return []
        found = sorted(self._subscribed() - self.topics.keys())
        self._all_seen = not found
        return found

    def known_topics(self) -> dict[str, Topic]:
        """The subscribed topics that exist."""
        found = ((name, self.topics.get(name)) for name in self.subscribed())
        return {name: topic for name, topic in found if topic is not None}

    def names(self) -> dict[TopicId, str]:
        """Of the subscribed topics that exist."""
        return {topic.topic_id: name for name, topic in self.known_topics().items()}

    def see(self, seen: Mapping[str, Topic | None]) -> None:
        """These topics as they are now. What no member subscribes to is forgotten."""
        self.topics.update(seen)
        for name in sorted(self.topics.keys() - self._subscribed()):
            del self.topics[name]

    def hash(self) -> int:
        """Of the topics as they were when they were last all known."""
        return topics_hash(self.known_topics()) if self.stored_hash is None else self.stored_hash
