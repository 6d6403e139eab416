"""Collects what a counting application left in its topics, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from strandline.client.reading.records import FetchedBatch
from strandline.ids import TopicPartition
from strandline.streams import INTEGER
from strandline_lab.simulation.workloads.counting import judge
from strandline_lab.simulation.workloads.counting.topology import COMPONENTS, USERS


@dataclass(frozen=True, slots=True)
class Names:
    """The topics of an application, each with this many partitions."""

    application: str
    lines: str
    counts: str
    partitions: int

    @property
    def repartition(self) -> str:
        return f"{self.application}-{COMPONENTS}-repartition"

    def changelog(self, subtopology: str) -> str:
        return f"{self.application}-{subtopology}-changelog"

    def of(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in range(self.partitions)]

    @property
    def everything(self) -> list[TopicPartition]:
        changelogs = (self.changelog(self.lines), self.changelog(COMPONENTS))
        topics = (self.lines, self.repartition, self.counts, *changelogs)
        return [name for topic in topics for name in self.of(topic)]


class Reading:
    """What is read of these topics, from their beginnings: what is committed, if it is `exactly_once`."""

    def __init__(self, names: Names, *, exactly_once: bool = False) -> None:
        self.history = judge.History(exactly_once)
        self._names = names
        self._users, self._components = names.changelog(names.lines), names.changelog(COMPONENTS)

    def take(self, batch: FetchedBatch) -> None:
        """Add a batch; those of a partition come in order."""
        history, partition = self.history, batch.partition
        if batch.topic == self._users:
            history.users[partition].append(judge.commit(batch, USERS))
        elif batch.topic == self._components:
            history.components[partition].append(judge.commit(batch, COMPONENTS))
        elif batch.topic == self._names.lines:
            history.lines[partition] += [(r.key or b"", r.value or b"") for r in batch.records()]
        elif batch.topic == self._names.repartition:
            history.repartitioned[partition] += [(r.offset, judge.origin(r.headers)) for r in batch.records()]
        else:
            records = batch.records()
            history.counts += [(r.key or b"", INTEGER.decode(r.value or b"")) for r in records]

    def all_read(self, ends: Mapping[TopicPartition, int]) -> bool:
        """True if the application has read all of its input, by its last commits. A commit comes after the
        outputs that belong to it."""
        names, history = self._names, self.history
        stages = ((names.lines, history.users), (names.repartition, history.components))
        return all(
            _read(commits[name.partition], name) >= ends[name]
            for topic, commits in stages
            for name in names.of(topic)
        )

    def faults(self) -> list[str]:
        """All that is wrong with what was counted."""
        return judge.faults(self.history, self._names.lines, self._names.repartition)


def _read(commits: Sequence[judge.Commit], source: TopicPartition) -> int:
    return commits[-1].read.get(source, 0) if commits else 0
