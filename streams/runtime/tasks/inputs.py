"""Which running task gets the records of which partition, and from where on."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping

from strandline.consumer.consumer import Consumer
from strandline.ids import TopicPartition
from strandline.streams.runtime.tasks.active import ActiveTask

logger = logging.getLogger(__name__)


class Inputs:
    """Over the consumer of the group. A partition that is assigned is paused until its task runs, and while
    it does not: so what was fetched is never handed out to nobody."""

    def __init__(self, consumer: Consumer, offset_reset: str) -> None:
        self._consumer = consumer
        self._reset = offset_reset
        self._readers: dict[TopicPartition, ActiveTask] = {}
        self._starts: dict[TopicPartition, int] = {}
        """Of what is assigned: where the group or the reset policy has it begin, or where it was read to."""

    async def starts(
        self, partitions: Iterable[TopicPartition], *, stateful: bool, repartition: bool
    ) -> dict[TopicPartition, int]:
        """Where to begin what no task has a position of: always the same while it is assigned, however often
        the task that reads it has to begin again. Raises what keeps a position from being found.

        A task with a state begins where the reset policy says, whatever the group has committed: a state
        that is lost, or new, would lack the records before. One without goes on where the group is. Of a
        repartition topic nothing is ever left out.
        """
        for name in partitions:
            if name not in self._starts:
                committed = await self._consumer.committed(name)
                if stateful and committed is not None:
                    logger.warning(
                        "%s was read up to %d, and its task has no state of that: it is read anew",
                        name, committed.offset,
                    )  # fmt: skip
                if stateful or committed is None:
                    await self._reset_to(name, "earliest" if repartition else self._reset)
                self._starts[name] = await self._consumer.position(name)
        return {name: self._starts[name] for name in partitions}

    async def _reset_to(self, name: TopicPartition, policy: str) -> None:
        if policy == "earliest":
            await self._consumer.seek_to_beginning(name)
        elif policy == "latest":
            await self._consumer.seek_to_end(name)

    def reached(self, offsets: Mapping[TopicPartition, int]) -> None:
        """A task that has ended has read so far, and has committed that: who has no position of its own goes
        on from there."""
        self._starts |= {name: offset for name, offset in offsets.items() if name in self._starts}

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are another one's now."""
        for name in partitions:
            self._starts.pop(name, None)

    def hold(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.pause(*self._assigned(partitions))

    def begin(self, active: ActiveTask, partitions: Collection[TopicPartition]) -> None:
        """Hand out to this task, from its positions on."""
        positions = active.offsets()
        for name in self._assigned(partitions):
            self._readers[name] = active
            self._consumer.seek(name, positions[name])
            self._consumer.resume(name)

    def end(self, active: ActiveTask) -> None:
        """Hand out nothing more to this task."""
        mine = [name for name, reader in self._readers.items() if reader is active]
        for name in mine:
            del self._readers[name]
        self.hold(mine)

    def reader(self, partition: TopicPartition) -> ActiveTask | None:
        return self._readers.get(partition)

    def running(self) -> list[ActiveTask]:
        """Each once."""
        return list(dict.fromkeys(self._readers.values()))

    async def partitions(self, topics: Iterable[str], number: int) -> frozenset[TopicPartition]:
        """Those with this number, of the topics that have so many: as far as is known, and the group may have
        heard of one sooner. Raises what keeps them unknown."""
        counts = {topic: len(await self._consumer.partitions_for(topic)) for topic in topics}
        mine = self._consumer.assignment()
        names = {TopicPartition(topic, number): number < count for topic, count in counts.items()}
        return frozenset(name for name, is_known in names.items() if is_known or name in mine)

    def assigned(self, partitions: Collection[TopicPartition]) -> bool:
        """True if all of these are this consumer's."""
        return self._consumer.assignment().issuperset(partitions)

    def _assigned(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        mine = self._consumer.assignment()
        return [name for name in partitions if name in mine]
