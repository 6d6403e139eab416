"""Finds out which of the partitions that clients name do not exist, with few reads of ZooKeeper.

A result is kept for a while. A name counts as missing only after a `sync` and a read, so a topic that was
just created is never missing. Names that do not exist are not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import Final

from strandline.adapters.zookeeper import znodes
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.errors import CoordinationError
from strandline.ids import TopicPartition
from strandline.ports import Clock, Coordination, NoNode
from strandline.tasks import pipelined
from strandline.vocabulary.topics import is_topic_name

ONE_BY_ONE_MAX: Final = 20
"""Unknown topics of one request that are read singly; if there are more, the list of all topics is read
first."""


class ExistingPartitions:
    """The partitions known to exist. `connected` returns the session, or raises CoordinationError."""

    def __init__(self, connected: Callable[[], Coordination], age_s: float, clock: Clock) -> None:
        self._connected = connected
        self._age_s = age_s
        self._clock = clock
        self._found: dict[str, tuple[int, float]] = {}
        """The partition count of each topic, and until when it is used."""

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

    def _known(self, name: TopicPartition) -> bool:
        count, until = self._found.get(name.topic, (0, 0.0))
        return 0 <= name.partition < count and self._clock.monotonic() < until

    async def _read(self, topics: set[str]) -> None:
        session = self._connected()
        wanted = {topic for topic in topics if is_topic_name(topic)}
        await session.sync(znodes.TOPICS)
        if len(wanted) > ONE_BY_ONE_MAX:
            wanted.intersection_update(await session.children(znodes.TOPICS))

        async def read(topic: str) -> tuple[str, int]:
            try:
                data = (await session.get(znodes.topic(topic))).data
                return topic, znodes.load_topic(topic, data).partitions
            except (NoNode, znodes.UnreadableZnode):
                return topic, 0

        counts = await pipelined(read, sorted(wanted), in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        now = self._clock.monotonic()
        self._found = {topic: found for topic, found in self._found.items() if found[1] > now}
        self._found.update({topic: (count, now + self._age_s) for topic, count in counts if count})
