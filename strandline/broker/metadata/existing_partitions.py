"""Finds out which of the partitions that clients name do not exist, and the ids of their topics, with few
reads of ZooKeeper.

A result is kept for a while. A name counts as missing only after a `sync` and a read, so a topic that was
just created is never missing. Names that do not exist are not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from strandline.adapters.zookeeper import znodes
from strandline.broker.metadata.shared_look import SharedLook
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.errors import CoordinationError
from strandline.ids import NO_EPOCH, NO_TOPIC_ID, TopicId, TopicPartition
from strandline.ports import Clock, Coordination, NoNode, Znode
from strandline.tasks import pipelined
from strandline.vocabulary.topics import is_topic_name

ONE_BY_ONE_MAX: Final = 20
"""Unknown topics of one request that are read singly; if there are more, the list of all topics is read
first."""


class FoundTopic(NamedTuple):
    partitions: int
    topic_id: TopicId
    above_epoch: int
    """All epochs of its leaders are higher; NO_EPOCH if that is not known."""
    until: float
    """Until when it is used without a look, monotonic seconds."""


_NOT_FOUND: Final = FoundTopic(0, NO_TOPIC_ID, NO_EPOCH, 0.0)


@dataclass(frozen=True, slots=True)
class TopicsNow:
    """What a look found. It began after it was asked for: what was known before, of a topic or of a commit of
    it, is not newer."""

    looked: Set[str] = frozenset()
    """Topics that were looked for, and those that could be read or do not exist; the others are unknown."""
    found: Mapping[str, FoundTopic] = field(default_factory=dict)
    latest_epoch: int = NO_EPOCH
    """No leader has had a higher one; NO_EPOCH: not known."""

    @property
    def ids(self) -> dict[str, TopicId]:
        return {topic: found.topic_id for topic, found in self.found.items()}

    @property
    def above_epochs(self) -> dict[str, int]:
        return {topic: found.above_epoch for topic, found in self.found.items()}

    def has_no(self, topic: str) -> bool:
        """True if no topic has this name."""
        return topic in self.looked and topic not in self.found

    def id_of(self, topic: str) -> TopicId | None:
        """The topic's id; None if no topic has the name, NO_TOPIC_ID if that is not known."""
        return None if self.has_no(topic) else self.found.get(topic, _NOT_FOUND).topic_id

    def missing(self, names: Iterable[TopicPartition]) -> Set[TopicPartition]:
        """Those of these partitions that do not exist."""
        return {
            name
            for name in names
            if name.topic in self.looked
            and not 0 <= name.partition < self.found.get(name.topic, _NOT_FOUND).partitions
        }


class ExistingPartitions:
    """The partitions known to exist. `connected` returns the session, or raises CoordinationError."""

    def __init__(self, connected: Callable[[], Coordination], age_s: float, clock: Clock) -> None:
        self._connected = connected
        self._age_s = age_s
        self._clock = clock
        self._found: dict[str, FoundTopic] = {}
        self._looks = SharedLook(self._look)
        self._listed_zxid = 0
        """The transaction that last created or deleted a topic, as of the last look."""
        self._checked: set[str] = set()
        """Topics in `_found` that are as they were then: no topic came or went since they were read."""
        self._grown: set[str] = set()
        """Topics that the next look reads in any case: a partition was asked for that was not there."""
        self._unreadable: set[str] = set()
        """Topics whose znodes the last look could not understand."""
        self._latest_epoch: int = NO_EPOCH

    async def missing(self, names: Iterable[TopicPartition]) -> Set[TopicPartition]:
        """Those of these that do not exist; none while ZooKeeper cannot be read."""
        doubtful = [name for name in names if not self._known(name)]
        if not doubtful:
            return frozenset()
        try:
            return (await self.now(doubtful)).missing(doubtful)
        except CoordinationError:
            return frozenset()

    async def now(self, names: Iterable[TopicPartition]) -> TopicsNow:
        """The topics of these partitions, by a look that begins after this call; concurrent calls share one.
        Raises CoordinationError.

        If no topic was created or deleted since the last look, it costs two reads, however many topics there
        are: a topic with a name keeps its id, and never has fewer partitions.
        """
        topics = set[str]()
        for name in names:
            topics.add(name.topic)
            if not 0 <= name.partition < self._found.get(name.topic, _NOT_FOUND).partitions:
                self._grown.add(name.topic)
        if not topics:
            return TopicsNow()
        await self._looks.at(topics)
        found = {topic: self._found[topic] for topic in topics if topic in self._found}
        return TopicsNow(topics - self._unreadable, found, self._latest_epoch)

    def _known(self, name: TopicPartition) -> bool:
        found = self._found.get(name.topic, _NOT_FOUND)
        return 0 <= name.partition < found.partitions and self._clock.monotonic() < found.until

    async def _look(self, topics: Set[str]) -> None:
        grown, self._grown = self._grown, set()
        try:
            await self._look_at(topics, grown)
        except BaseException:
            self._grown |= grown
            raise

    async def _look_at(self, topics: Set[str], grown: Set[str]) -> None:
        session = self._connected()
        await session.sync(znodes.TOPICS)

        async def look(path: str) -> Znode | None:
            try:
                return await session.get(path)
            except NoNode:
                return None

        listed, epoch = await pipelined(look, (znodes.TOPICS, znodes.EPOCH), in_flight_max=2)
        zxid = 0 if listed is None else listed.children_zxid
        if not zxid or zxid != self._listed_zxid:
            self._listed_zxid = zxid
            self._checked.clear()
        if epoch is not None:
            self._latest_epoch = _latest(epoch)
        unchecked = topics - ((self._checked & self._found.keys()) - grown)
        read = await self._read(session, unchecked) if unchecked else {}
        self._take(topics - unchecked, unchecked, read)

    def _take(self, checked: Set[str], unchecked: Set[str], read: Mapping[str, znodes.TopicNode]) -> None:
        now = self._clock.monotonic()
        found = {topic: each for topic, each in self._found.items() if topic not in unchecked}
        found = {topic: each for topic, each in found.items() if each.until > now or topic in checked}
        found |= {topic: found[topic]._replace(until=now + self._age_s) for topic in checked}
        found |= {
            topic: FoundTopic(node.partitions, node.topic_id, node.above_epoch, now + self._age_s)
            for topic, node in read.items()
            if node.partitions
        }
        self._found = found
        self._checked = (self._checked | unchecked) & found.keys()

    async def _read(self, session: Coordination, topics: Set[str]) -> dict[str, znodes.TopicNode]:
        """Those of these topics that exist."""
        wanted = {topic for topic in topics if is_topic_name(topic)}
        if len(wanted) > ONE_BY_ONE_MAX:
            wanted.intersection_update(await session.children(znodes.TOPICS))
        unreadable = set[str]()

        async def read(topic: str) -> znodes.TopicNode | None:
            try:
                return znodes.load_topic(topic, (await session.get(znodes.topic(topic))).data)
            except NoNode:
                return None
            except znodes.UnreadableZnode:
                unreadable.add(topic)
                return None

        names = sorted(wanted)
        nodes = await pipelined(read, names, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        self._unreadable = (self._unreadable - topics) | unreadable
        return {name: node for name, node in zip(names, nodes, strict=True) if node is not None}


def _latest(epoch: Znode) -> int:
    """The last epoch that was given; NO_EPOCH if the znode cannot be read."""
    try:
        return znodes.last_epoch(epoch)
    except znodes.UnreadableZnode:
        return NO_EPOCH
