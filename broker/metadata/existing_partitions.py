"""Finds out which of the partitions that clients name do not exist, and the ids of their topics, with few
reads of ZooKeeper.

A result is kept for a while. A name counts as missing only after a `sync` and a read, so a topic that was
just created is never missing. Names that do not exist are not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import Final, NamedTuple

from strandline.adapters.zookeeper import znodes
from strandline.broker.metadata.shared_look import SharedLook
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.errors import CoordinationError
from strandline.ids import NO_TOPIC_ID, TopicId, TopicPartition
from strandline.ports import Clock, Coordination, NoNode
from strandline.tasks import pipelined
from strandline.vocabulary.topics import is_topic_name

ONE_BY_ONE_MAX: Final = 20
"""Unknown topics of one request that are read singly; if there are more, the list of all topics is read
first."""


class _Found(NamedTuple):
    partitions: int
    topic_id: TopicId
    until: float
    """Until when it is used, monotonic seconds."""


_NOT_FOUND: Final = _Found(0, NO_TOPIC_ID, 0.0)


class ExistingPartitions:
    """The partitions known to exist. `connected` returns the session, or raises CoordinationError."""

    def __init__(self, connected: Callable[[], Coordination], age_s: float, clock: Clock) -> None:
        self._connected = connected
        self._age_s = age_s
        self._clock = clock
        self._found: dict[str, _Found] = {}
        self._present = SharedLook(self._read)

    async def missing(self, names: Iterable[TopicPartition]) -> Set[TopicPartition]:
        """Those of these that do not exist; none while ZooKeeper cannot be read."""
        doubtful = [name for name in names if not self._known(name)]
        if not doubtful:
            return frozenset()
        try:
            await self._read({name.topic for name in doubtful})
        except CoordinationError:
            return frozenset()
        return {name for name in doubtful if not self._known(name)}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, TopicId]:
        """The ids of these topics, as of the last reading; a topic may have been made anew since."""
        return {topic: self._found[topic].topic_id for topic in topics if topic in self._found}

    async def present_ids(self, topics: Set[str]) -> dict[str, TopicId]:
        """The ids of these topics, of a reading that begins now; NO_TOPIC_ID where there is none. Raises
        CoordinationError."""
        await self._present.at(topics)
        return {
            topic: self._found[topic].topic_id if topic in self._found else NO_TOPIC_ID for topic in topics
        }

    def _known(self, name: TopicPartition) -> bool:
        found = self._found.get(name.topic, _NOT_FOUND)
        return 0 <= name.partition < found.partitions and self._clock.monotonic() < found.until

    async def _read(self, topics: Set[str]) -> None:
        session = self._connected()
        wanted = {topic for topic in topics if is_topic_name(topic)}
        await session.sync(znodes.TOPICS)
        if len(wanted) > ONE_BY_ONE_MAX:
            wanted.intersection_update(await session.children(znodes.TOPICS))

        async def read(topic: str) -> znodes.TopicNode | None:
            try:
                return znodes.load_topic(topic, (await session.get(znodes.topic(topic))).data)
            except (NoNode, znodes.UnreadableZnode):
                return None

        names = sorted(wanted)
        read_topics = await pipelined(read, names, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        now = self._clock.monotonic()
        kept = {topic: found for topic, found in self._found.items() if found.until > now}
        self._found = {topic: found for topic, found in kept.items() if topic not in topics}
        for topic, found in zip(names, read_topics, strict=True):
            if found is not None and found.partitions:
                self._found[topic] = _Found(found.partitions, found.topic_id, now + self._age_s)
