"""Maps input partitions to the running tasks, with their start offsets."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping

from strandline.consumer.consumer import Consumer
from strandline.ids import TopicPartition
from strandline.streams.runtime.tasks.active import ActiveTask
from strandline.vocabulary.log_position import LogPosition

logger = logging.getLogger(__name__)


class Inputs:
    """The inputs of the group's consumer. An assigned partition is paused while its task does not run, so
    that records are never handed out without a task."""

    def __init__(self, consumer: Consumer, offset_reset: str) -> None:
        self._consumer = consumer
        self._reset = offset_reset
        self._readers: dict[TopicPartition, ActiveTask] = {}
        self._starts: dict[TopicPartition, LogPosition] = {}
        """For assigned partitions: the start from the group or the reset policy, or the position reached."""

    async def starts(
        self, partitions: Iterable[TopicPartition], *, stateful: bool, repartition: bool
    ) -> dict[TopicPartition, LogPosition]:
        """Start positions of partitions without a task position: the same as long as the partition is
        assigned, however often its task restarts. Raises if a position cannot be found.

        A stateful task begins at the reset policy's offset and ignores the group's commits: a state that is
        lost, or new, would lack the earlier records. A stateless one begins at the group's offset. A
        repartition topic is always read completely.
        """
        for name in partitions:
            if name not in self._starts:
                committed = await self._consumer.committed(name)
                if stateful and committed is not None:
                    logger.warning(
                        "%s was read up to %d, and its task lost that state: it is read again",
                        name, committed.offset,
                    )  # fmt: skip
                if stateful or committed is None:
                    await self._reset_to(name, "earliest" if repartition else self._reset)
                offset = await self._consumer.position(name)
                self._starts[name] = self._consumer.log(name).at(offset)
        return {name: self._starts[name] for name in partitions}

    async def _reset_to(self, name: TopicPartition, policy: str) -> None:
        if policy == "earliest":
            await self._consumer.seek_to_beginning(name)
        elif policy == "latest":
            await self._consumer.seek_to_end(name)

    def reached(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        """A task that has ended has read and committed up to these positions: a successor without a position
        of its own continues there."""
        self._starts |= {name: at for name, at in positions.items() if name in self._starts}

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions now belong to another member."""
        for name in partitions:
            self._starts.pop(name, None)

    def hold(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.pause(*self._assigned(partitions))

    def begin(self, active: ActiveTask, partitions: Collection[TopicPartition]) -> None:
        """Hand records to this task, from its positions on."""
        positions = active.positions()
        for name in self._assigned(partitions):
            self._readers[name] = active
            self._consumer.seek(name, positions[name])
            self._consumer.resume(name)

    def end(self, active: ActiveTask) -> None:
        """Hand no more records to this task."""
        mine = [name for name, reader in self._readers.items() if reader is active]
        for name in mine:
            del self._readers[name]
        self.hold(mine)

    def check(self) -> None:
        """While no record is in hand: raises ProcessingFailed if the consumer reads another log than a
        running task has read, although no record of it may have arrived. What it has passed without a record,
        such as the markers of transactions, counts as read."""
        assigned = self._consumer.assignment()
        for name, active in self._readers.items():
            if not active.abandoned() and name in assigned:
                log = self._consumer.log(name)
                active.check(name, log)
                active.passed(name, log)

    def reader(self, partition: TopicPartition) -> ActiveTask | None:
        return self._readers.get(partition)

    def some_held(self) -> bool:
        """True if the task of some assigned partition does not run."""
        return not self._consumer.assignment() <= self._readers.keys()

    def running(self) -> list[ActiveTask]:
        """The running tasks, without duplicates."""
        return list(dict.fromkeys(self._readers.values()))

    async def partitions(self, topics: Iterable[str], number: int) -> frozenset[TopicPartition]:
        """The partitions with this number, of the topics that have one, as far as is known; the group may
        know of a partition earlier. Raises if the counts cannot be read."""
        counts = {topic: len(await self._consumer.partitions_for(topic)) for topic in topics}
        mine = self._consumer.assignment()
        names = {TopicPartition(topic, number): number < count for topic, count in counts.items()}
        return frozenset(name for name, is_known in names.items() if is_known or name in mine)

    def assigned(self, partitions: Collection[TopicPartition]) -> bool:
        """True if all of these are assigned to this consumer."""
        return self._consumer.assignment().issuperset(partitions)

    def _assigned(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        mine = self._consumer.assignment()
        return [name for name in sorted(partitions) if name in mine]
