"""All rows of a timeline, and the requests of all partitions together."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.console.core.timeline.interned import Interned
from strandline.console.core.timeline.kept_rows import KeptRows
from strandline.console.core.timeline.lanes.marks import Marks
from strandline.console.core.timeline.lanes.spans import Span, Spans
from strandline.console.core.timeline.lanes.steps import Steps
from strandline.console.core.timeline.rows import (
    BrokerRow,
    GroupRow,
    PartitionRow,
    Row,
    TaskRow,
    partition_key,
)


class Rows:
    """The rows that events have made, by kind."""

    def __init__(self) -> None:
        self.partitions = KeptRows(PartitionRow)
        self.brokers = KeptRows(BrokerRow)
        self.groups = KeptRows(GroupRow)
        self.tasks = KeptRows(TaskRow)
        self.requests = Spans()
        """Of all partitions."""
        self.spans: dict[str, Span] = {}
        """Requests and reassignments by their ids."""
        self.elections = Marks()
        """Of all partitions; the kind is the partition."""
        self.rebalances = Marks()
        """Of all groups; the kind is the group."""
        self.answers: Steps[bool] = Steps()
        """Whether any broker answered the console."""
        self.interned = Interned()

    def partition(self, topic: str, partition: int) -> PartitionRow | None:
        """None beyond the limit of rows."""
        topic = self.interned.one(topic)
        return self.partitions.of(partition_key(topic, partition), topic, partition)

    def known_partition(self, topic: str, partition: int) -> PartitionRow | None:
        """As `partition`, but None if nothing has made it yet."""
        return self.partitions.get(partition_key(topic, partition))

    def broker(self, broker: int) -> BrokerRow | None:
        return self.brokers.of(broker, broker)

    def group(self, group: str) -> GroupRow | None:
        group = self.interned.one(group)
        return self.groups.of(group, group)

    def task(self, group: GroupRow, task: str) -> TaskRow | None:
        found = group.tasks.get(task)
        if found is None and (found := self.tasks.of((group.group, task), group.group, task)) is not None:
            group.tasks[task] = found
        return found

    @property
    def left_out(self) -> int:
        """Events whose rows are not shown, since there are too many."""
        kinds = (self.partitions, self.brokers, self.groups, self.tasks)
        return sum(kind.left_out for kind in kinds)

    def forget_partitions(self) -> None:
        """Forgets all that state changes said."""
        self.partitions = KeptRows(PartitionRow)
        self.requests, self.elections = Spans(), Marks()
        self.spans.clear()
        for broker in self.brokers:
            broker.requests, broker.marks = Spans(), Marks()

    def forget_groups(self) -> None:
        """Forgets all that events of groups said."""
        self.groups, self.tasks = KeptRows(GroupRow), KeptRows(TaskRow)
        self.rebalances = Marks()

    def trim(self, rows: Iterable[Row], floor_ms: int) -> None:
        """Has these rows forget what is older than a time, and drops those of which nothing is left."""
        for row in rows:
            if not row.trim(floor_ms):
                continue
            if isinstance(row, PartitionRow):
                self.partitions.drop(row)
            elif isinstance(row, BrokerRow):
                self.brokers.drop(row)
            elif isinstance(row, GroupRow):
                self.groups.drop(row)
                for task in row.tasks.values():
                    self.tasks.drop(task)
            else:
                self.tasks.drop(row)
                if (group := self.groups.get(row.group)) is not None:
                    group.tasks.pop(row.task, None)

    def trim_requests(self, floor_ms: int) -> None:
        """Has the list of all requests forget what is older than a time."""
        for span in self.requests.trim(floor_ms):
            self.spans.pop(span.id, None)
        self.elections.trim(floor_ms)
