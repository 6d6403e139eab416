"""A changelog to restore from: written by a producer, and what a store of it has to hold in the end."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from uuid import uuid4

from strandline import Admin, LocalCluster, NewTopic, Producer, TopicPartition
from strandline.streams.core.task import TaskId
from strandline.streams.storage.task_store import TaskStore


class Changelog:
    """One partition. `table` is what was acknowledged, `end` the offset behind it."""

    def __init__(self, bootstrap: str, name: TopicPartition) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.task = TaskId(name.topic, name.partition)
        self.table: dict[bytes, bytes] = {}
        self.end = 0
        self.written = 0

    async def write(self, records: Iterable[tuple[bytes, bytes | None]], producer: Producer) -> None:
        """Append these, all acknowledged on return."""
        topic, partition = self.name
        records = list(records)
        sent = [await producer.send(topic, value, key, partition=partition) for key, value in records]
        for (key, value), future in zip(records, sent, strict=True):
            self.end = (await future).offset + 1
            self.written += 1
            if value is None:
                self.table.pop(key, None)
            else:
                self.table[key] = value

    async def fill(self, count: int, *, size: int = 100, keys: int | None = None) -> None:
        """This number of records of this number of bytes, with keys that repeat after `keys` of them."""
        async with Producer(self.bootstrap, linger_ms=5) as producer:
            first = self.written
            await self.write(
                (
                    (b"k%08d" % (number % (keys or first + count)), b"%d." % number + b"x" * size)
                    for number in range(first, first + count)
                ),
                producer,
            )


async def new_changelogs(
    cluster: LocalCluster, count: int = 1, config: Mapping[str, str] | None = None
) -> list[Changelog]:
    """A new compacted topic with a partition for each."""
    topic = f"changelog-{uuid4().hex[:8]}"
    await create_topic(cluster, topic, count, config)
    return [Changelog(cluster.bootstrap, TopicPartition(topic, number)) for number in range(count)]


async def create_topic(
    cluster: LocalCluster, topic: str, partitions: int, config: Mapping[str, str] | None = None
) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topics([NewTopic(topic, partitions, 1, config or {"cleanup.policy": "compact"})])


def contents(store: TaskStore) -> dict[bytes, bytes]:
    """All that it holds of its changelog."""
    return dict(store.range(b"", None))


async def raised(work: Coroutine[None, None, object]) -> Exception | None:
    """The exception that this raises."""
    try:
        await work
    except Exception as error:
        return error
    return None
