"""What ZooKeeper says about topics: read once for all who ask at the same time, and as seldom as it costs.

A topic of a thousand partitions is two thousand znodes. When their leader dies, every client asks about all
of them again and again: so what is known to be over is read again by itself, the whole only when it is old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final

from strandline.adapters import znodes
from strandline.adapters.unreadable import UnreadableLog
from strandline.config import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.errors import (
    CoordinationError,
    LeaderNotAvailable,
    StrandlineError,
    UnknownTopicOrPartition,
)
from strandline.ids import TopicPartition
from strandline.metadata import NEVER_LED, PartitionMetadata, TopicMetadata
from strandline.ports import Clock, NoNode
from strandline.tasks import pipelined

READING_SHARE_MAX: Final = 0.1
"""Of the time that one topic is asked about, no more is spent on reading it: what took long stands longer."""
AGE_S_MAX: Final = 5.0
"""But never longer than this."""
LOOKS_MAX: Final = 3
"""What becomes outdated during a reading is read in it, so often: nobody waits for what never rests."""


@dataclass(slots=True)
class _Known:
    """A topic as it was read."""

    topic: TopicMetadata
    old_at: float
    """When it is to be read again, monotonic."""
    outdated: set[int] = field(default_factory=set)
    """Partitions of which this is known not to be true any more."""


class TopicCache:
    """`get` reads a znode, and raises NoNode, ConnectionLost or SessionEnded."""

    def __init__(self, get: Callable[[str], Awaitable[bytes]], age_s: float, clock: Clock) -> None:
        self._get = get
        self._age_s = age_s
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._unreadable = UnreadableLog()
        self._under_way: dict[str, asyncio.Future[TopicMetadata | StrandlineError | None]] = {}
        """What comes of a reading; None if whoever read was cancelled."""

    @property
    def names(self) -> list[str]:
        """The topics that were found when they were last asked for."""
        return sorted(self._known)

    def outdated(self, partition: TopicPartition) -> None:
        """Something newer is known to be, or to come: the next question reads this partition again."""
        known = self._known.get(partition.topic)
        if known is not None:
            known.outdated.add(min(partition.partition, len(known.topic.partitions)))

    async def topic(self, name: str) -> TopicMetadata:
        """The topic; while ZooKeeper cannot be reached, as it was read last.

        Raises UnknownTopicOrPartition; LeaderNotAvailable and UnreadableZnode if it was never read.
        """
        while (under_way := self._under_way.get(name)) is not None:
            outcome = await asyncio.shield(under_way)
            if isinstance(outcome, StrandlineError):
                raise outcome
            if outcome is not None:
                return outcome
        known = self._known.get(name)
        if known is not None and not self._is_old(known) and not known.outdated:
            return known.topic
        return await self._read_for_all(name)

    async def _read_for_all(self, name: str) -> TopicMetadata:
        answer = self._under_way[name] = asyncio.get_running_loop().create_future()
        outcome: TopicMetadata | StrandlineError | None = None
        try:
            outcome = await self._read(name)
            return outcome
        except StrandlineError as error:
            outcome = error
            raise
        finally:
            del self._under_way[name]
            answer.set_result(outcome)

    async def _read(self, name: str) -> TopicMetadata:
        known = self._known.get(name)
        try:
            if known is None or self._is_old(known):
                known = await self._read_whole(name)
            for _ in range(LOOKS_MAX):
                if not known.outdated:
                    break
                known = await self._read_outdated(name, known)
        except NoNode:
            self._known.pop(name, None)
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

    async def _read_whole(self, name: str) -> _Known:
        began = self._clock.monotonic()
        node = znodes.load_topic(name, await self._get(znodes.topic(name)))
        if not node.partitions:  # still being created: it is a topic once it has all of them
            raise NoNode(znodes.topic(name))
        partitions = await self._read_partitions(name, range(node.partitions))
        topic = TopicMetadata(name, node.topic_id, tuple(partitions), dict(node.config))
        now = self._clock.monotonic()
        stands_s = max(self._age_s, min((now - began) / READING_SHARE_MAX, AGE_S_MAX))
        known = self._known[name] = _Known(topic, now + stands_s)
        return known

    async def _read_outdated(self, name: str, known: _Known) -> _Known:
        """Only those partitions; the whole if it is not the same topic any more, or has grown."""
        numbers, known.outdated = sorted(known.outdated), set()
        try:
            node = znodes.load_topic(name, await self._get(znodes.topic(name)))
            if (node.topic_id, node.partitions) != (known.topic.topic_id, len(known.topic.partitions)):
                return await self._read_whole(name)
            there = [number for number in numbers if number < node.partitions]
            read = {each.partition: each for each in await self._read_partitions(name, there)}
        except BaseException:
            known.outdated.update(numbers)
            raise
        partitions = tuple(read.get(each.partition, each) for each in known.topic.partitions)
        known.topic = replace(known.topic, partitions=partitions)
        return known

    async def _read_partitions(self, name: str, numbers: range | list[int]) -> list[PartitionMetadata]:
        async def read(partition: int) -> PartitionMetadata:
            """As nobody's whose znodes cannot be read: the topic's other partitions go on."""
            raw = await self._get(znodes.replicas(name, partition))
            record = await self._get(znodes.isr(name, partition))
            replicas: tuple[int, ...] = ()
            state = NEVER_LED
            try:
                replicas = znodes.load_replicas(name, partition, raw)
                state = znodes.load_isr(name, partition, record)
            except znodes.UnreadableZnode as error:
                self._unreadable.report(error)
            return PartitionMetadata(partition, state.leader, state.leader_epoch, replicas, state.isr_ids)

        return await pipelined(read, numbers, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
