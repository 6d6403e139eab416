"""Caches topics read from ZooKeeper: concurrent requests share a reading, and the time for readings is
bounded.

A topic of a thousand partitions has two thousand znodes. When their leader dies, every client asks for all of
them repeatedly. So partitions that are known to be outdated are read singly; the whole topic is read only
when it is old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Final

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.unreadable import UnreadableLog
from strandline.broker.metadata.topic_reader import Live, Lives, PartitionRead, TopicReader
from strandline.errors import (
    CoordinationError,
    LeaderNotAvailable,
    StrandlineError,
    UnknownTopicOrPartition,
)
from strandline.ids import BrokerEpoch, BrokerId, TopicPartition
from strandline.ports import Clock, NoNode
from strandline.vocabulary.metadata import TopicMetadata

READING_SHARE_MAX: Final = 0.1
"""Share of time that may be spent on reading one topic: a reading that took long is kept longer."""
AGE_S_MAX: Final = 5.0
"""The longest time that a reading is kept."""
LOOKS_MAX: Final = 3
"""Repetitions of a reading for partitions that become outdated meanwhile. The bound keeps requests from
waiting for a topic that always changes."""


@dataclass(slots=True)
class _Known:
    """A topic as it was read."""

    topic: TopicMetadata
    read: dict[int, PartitionRead]
    lives: Lives
    live: Live
    """The registrations that the leaders were last compared with: a new mapping after each change."""
    old_at: float
    """When it is to be read again, monotonic."""
    outdated: set[int] = field(default_factory=set)
    """Partitions whose entry is known to be outdated."""

    def differs(self, node: znodes.TopicNode) -> bool:
        """True if the topic is another one now, or has another size."""
        return (node.topic_id, node.partitions) != (self.topic.topic_id, len(self.topic.partitions))


class TopicCache:
    """The cache. Each call brings the reader that it may use: requests for a few topics do not queue behind
    those for all. `live` returns the registrations known here."""

    def __init__(self, live: Callable[[], Live], age_s: float, clock: Clock) -> None:
        self._live = live
        self._age_s = age_s
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._ids: dict[str, str] = {}
        """The names of these topics, by their ids."""
        self._unreadable = UnreadableLog()
        self._under_way: dict[str, asyncio.Future[TopicMetadata | StrandlineError | None]] = {}
        """The readings in progress; the result is None if the reader was cancelled."""

    @property
    def names(self) -> list[str]:
        """The topics that were found at their last request."""
        return sorted(self._known)

    def keep(self, names: Collection[str]) -> None:
        """Forgets all other topics: these are all that exist."""
        for name in self._known.keys() - set(names):
            self._forget(name)

    def _forget(self, name: str) -> None:
        known = self._known.pop(name, None)
        if known is not None:
            self._ids.pop(known.topic.topic_id, None)

    def name_of(self, topic_id: str) -> str | None:
        """The topic that had this id when it was last read."""
        return self._ids.get(topic_id)

    def has(self, partition: TopicPartition) -> bool:
        """True if the partition existed at its topic's last reading, unless that is long ago: the topic may
        be deleted."""
        known = self._known.get(partition.topic)
        if known is None or self._clock.monotonic() >= known.old_at + AGE_S_MAX:
            return False
        return 0 <= partition.partition < len(known.topic.partitions)

    def outdated(self, partition: TopicPartition) -> None:
        """Marks a partition whose state has changed or will change: the next request reads it again."""
        known = self._known.get(partition.topic)
        if known is not None:
            known.outdated.add(min(partition.partition, len(known.topic.partitions)))

    def was_read(self, name: str) -> bool:
        """True if there is a reading of the topic that its size could be compared with."""
        return name in self._known

    async def compare_size(self, name: str, reader: TopicReader) -> None:
        """Reads the topic's size; the next request reads the topic again if it has another one now, or is
        another topic. Raises ConnectionLost or SessionEnded."""
        try:
            node = await reader.node(name)
        except NoNode:
            node = None
        except znodes.UnreadableZnode as error:
            self._unreadable.report(error)
            return
        if (under_way := self._under_way.get(name)) is not None:
            await asyncio.shield(under_way)  # it may have begun before the change
        known = self._known.get(name)
        if known is not None and (node is None or known.differs(node)):
            known.old_at = self._clock.monotonic()

    async def topic(self, name: str, reader: TopicReader) -> TopicMetadata:
        """The topic; its last reading while ZooKeeper cannot be reached.

        Raises UnknownTopicOrPartition; LeaderNotAvailable and UnreadableZnode if it was never read.
        """
        while (under_way := self._under_way.get(name)) is not None:
            outcome = await asyncio.shield(under_way)
            if isinstance(outcome, StrandlineError):
                raise outcome
            if outcome is not None:
                return outcome
        fresh = self.fresh(name)
        return await self._read_for_all(name, reader) if fresh is None else fresh

    def fresh(self, name: str) -> TopicMetadata | None:
        """The topic, if its last reading still stands and no other is under way."""
        last = self.last(name)
        if last is None or name in self._under_way:
            return None
        known = self._known[name]
        return None if self._is_old(known) or known.outdated else last

    def last(self, name: str) -> TopicMetadata | None:
        """The topic at its last reading, without leaders that are gone since."""
        known = self._known.get(name)
        if known is None:
            return None
        self._drop_dead_leaders(known)
        return known.topic

    def _drop_dead_leaders(self, known: _Known) -> None:
        """Removes dead leaders from the answers, and marks their partitions as outdated."""
        live = self._live()
        if live is known.live:
            return
        known.live = live
        dead = {number for number, life in known.lives.items() if not self._is_live(known, number, life)}
        if dead:
            known.outdated |= dead
            known.lives = {number: life for number, life in known.lives.items() if number not in dead}
            known.topic = replace(
                known.topic,
                partitions=tuple(
                    each.without_leader() if each.partition in dead else each
                    for each in known.topic.partitions
                ),
            )

    def _is_live(self, known: _Known, number: int, life: BrokerEpoch) -> bool:
        registration = known.live.get(BrokerId(known.topic.partitions[number].leader))
        return registration is not None and registration.epoch == life

    async def _read_for_all(self, name: str, reader: TopicReader) -> TopicMetadata:
        answer = self._under_way[name] = asyncio.get_running_loop().create_future()
        outcome: TopicMetadata | StrandlineError | None = None
        try:
            outcome = await self._read(name, reader)
            return outcome
        except StrandlineError as error:
            outcome = error
            raise
        finally:
            del self._under_way[name]
            answer.set_result(outcome)

    async def _read(self, name: str, reader: TopicReader) -> TopicMetadata:
        known = self._known.get(name)
        try:
            if known is None or self._is_old(known):
                known = await self._read_whole(name, reader)
            for _ in range(LOOKS_MAX):
                if not known.outdated:
                    break
                known = await self._read_outdated(name, known, reader)
        except NoNode:
            self._forget(name)
            raise UnknownTopicOrPartition(f"topic {name!r} does not exist") from None
        except znodes.UnreadableZnode as error:
            self._unreadable.report(error)
            if known is None:
                raise
        except CoordinationError as error:
            if known is None:
                raise LeaderNotAvailable(
                    f"topic {name!r} cannot be read from ZooKeeper now: {error}"
                ) from error
        return known.topic

    def _is_old(self, known: _Known) -> bool:
        return self._clock.monotonic() >= known.old_at

    async def _read_whole(self, name: str, reader: TopicReader) -> _Known:
        """What was read is of one topic, also if it is made anew meanwhile: a client would take a leader of
        the new one for one of the old one."""
        before = self._known.get(name)
        while True:
            began = self._clock.monotonic()
            node = await reader.node(name)
            if not node.partitions:  # still being created: it is a topic once it has all of them
                raise NoNode(znodes.topic(name))
            live = self._live()
            last = {} if before is None else before.read
            read = await reader.partitions(name, range(node.partitions), last)
            partitions, lives = await reader.with_leaders(read)
            if (await reader.node(name)).topic_id == node.topic_id:
                break
        topic = TopicMetadata(name, node.topic_id, tuple(partitions.values()), dict(node.config))
        now = self._clock.monotonic()
        stands_s = max(self._age_s, min((now - began) / READING_SHARE_MAX, AGE_S_MAX))
        self._forget(name)
        known = self._known[name] = _Known(topic, read, lives, live, now + stands_s)
        self._ids[topic.topic_id] = name
        return known

    async def _read_outdated(self, name: str, known: _Known, reader: TopicReader) -> _Known:
        """Reads the states of only those partitions; the whole topic if it is another one now, or has
        grown. AR stays as the whole topic was read, unless the ISR shows that it has changed."""
        numbers, known.outdated = sorted(known.outdated), set()
        there = [number for number in numbers if number in known.read]
        try:
            read = await reader.partitions(name, there, known.read, states_only=True)
            found, lives = await reader.with_leaders(read)
            if known.differs(await reader.node(name)):
                return await self._read_whole(name, reader)
        except BaseException:
            known.outdated.update(numbers)
            raise
        known.read |= read
        partitions = tuple(found.get(each.partition, each) for each in known.topic.partitions)
        known.topic = replace(known.topic, partitions=partitions)
        kept = {number: life for number, life in known.lives.items() if number not in read}
        known.lives = kept | lives
        return known
