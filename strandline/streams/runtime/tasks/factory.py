"""Builds the parts of a task from its subtopology."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from strandline.config.streams import StreamsSettings
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.producer.producer import Producer
from strandline.streams.core.positions import Positions
from strandline.streams.core.task import TaskId
from strandline.streams.runtime.internal_topics import InternalTopics
from strandline.streams.runtime.tasks.active import ActiveTask
from strandline.streams.runtime.tasks.changelog_writer import ChangelogWriter
from strandline.streams.runtime.tasks.inputs import Inputs
from strandline.streams.runtime.tasks.outputs import Outputs
from strandline.streams.runtime.tasks.transactions import Transactions
from strandline.streams.storage.state import TaskState
from strandline.streams.storage.stores import StateStore
from strandline.streams.topology.subtopology import Subtopology
from strandline.vocabulary.log_position import LogPosition


class TaskFactory:
    """The factory of one member. `open_store` opens the store of a task, given its changelog's identity."""

    def __init__(
        self,
        subtopologies: Mapping[str, Subtopology],
        *,
        open_store: Callable[[TaskId, str], StateStore],
        topics: InternalTopics,
        inputs: Inputs,
        outputs: Producer,
        changelogs: Producer,
        transactions: Transactions | None,
        settings: StreamsSettings,
        clock: Clock,
    ) -> None:
        self._subtopologies = subtopologies
        self.open_store = open_store
        self._topics = topics
        self._inputs = inputs
        self._outputs = outputs
        self._changelogs = changelogs
        self._transactions = transactions
        self._settings = settings
        self._clock = clock

    async def inputs(self, task: TaskId) -> frozenset[TopicPartition]:
        """The input partitions of a task."""
        topics = self._subtopologies[task.subtopology].topics
        return await self._inputs.partitions(topics, task.partition)

    async def prepare(self, task: TaskId) -> None:
        """Return once the changelog has a partition for the task."""
        subtopology = self._subtopologies[task.subtopology]
        if subtopology.changelog is not None:
            await self._topics.grow(subtopology, task.partition)

    async def starts(
        self, task: TaskId, inputs: Iterable[TopicPartition]
    ) -> dict[TopicPartition, LogPosition]:
        """The start positions of those inputs for which the task has no position."""
        subtopology = self._subtopologies[task.subtopology]
        return await self._inputs.starts(
            inputs,
            stateful=subtopology.changelog is not None,
            repartition=subtopology.reads_repartition,
        )

    def changelog(self, task: TaskId) -> TopicPartition | None:
        """The partition with the task's state; None for a stateless task."""
        topic = self._subtopologies[task.subtopology].changelog
        return None if topic is None else TopicPartition(topic, task.partition)

    def positions(self, store: StateStore | None) -> Positions:
        """The positions in the changelog; none for a stateless task."""
        return Positions() if store is None else store.positions()

    def active(
        self,
        task: TaskId,
        store: StateStore | None,
        end: int,
        positions: Positions,
        *,
        has_new_starts: bool,
    ) -> ActiveTask:
        """The running task for its restored store, whose changelog ends at `end`."""
        subtopology = self._subtopologies[task.subtopology]
        changelog = self.changelog(task)
        writer = None
        if changelog is not None:
            writer = ChangelogWriter(
                self._changelogs, changelog, end=end, settings=self._settings, clock=self._clock
            )
        return ActiveTask(
            task,
            subtopology,
            state=None if store is None else TaskState(store),
            writer=writer,
            positions=positions,
            outputs=Outputs(
                self._outputs, subtopology.repartitions, settings=self._settings, clock=self._clock
            ),
            commit_bytes=self._settings.commit_bytes,
            transactions=self._transactions,
            on_committed=self._inputs.reached,
            has_new_starts=has_new_starts,
        )
