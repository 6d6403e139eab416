"""Looks up offsets by time at the leaders. Each partition's result counts as soon as it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from strandline.adapters.codecs.log import LIST_OFFSETS
from strandline.client.backoff import backoff_s
from strandline.client.cluster import Cluster
from strandline.config.client import ClientSettings
from strandline.errors import LeaderNotAvailable, StrandlineError, UnknownTopicOrPartition
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.vocabulary.log import ListedOffset, OffsetQuery

Found = dict[TopicPartition, ListedOffset | StrandlineError]

OnEnd = Callable[[TopicPartition, ListedOffset | StrandlineError], bool]
"""Called with the result of one partition's lookup. True: look it up again, for another `timeout_s`."""


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    settings: ClientSettings,
    clock: Clock,
    *,
    timeout_s: float,
) -> Found:
    """The offset of a timestamp (milliseconds, LATEST or EARLIEST) for each partition, or the last error: one
    that is not retriable, or the last before the timeout."""
    found: Found = {}

    def keep(name: TopicPartition, end: ListedOffset | StrandlineError) -> bool:
        found[name] = end
        return False

    await list_each_offset(cluster, wanted, settings, clock, timeout_s=timeout_s, on_end=keep)
    return found


async def list_each_offset(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    settings: ClientSettings,
    clock: Clock,
    *,
    timeout_s: float,
    on_end: OnEnd,
) -> None:
    """As `list_offsets`, but `on_end` gets each partition's offset or error as soon as it is known.

    No partition waits for another one that has no leader, whose broker does not answer, or whose topic does
    not exist. `on_end` is called in the task of the caller.
    """
    async with asyncio.TaskGroup() as tasks:
        lookup = _Lookup(cluster, wanted, settings, clock, tasks)
        lookup.begin(wanted, clock.monotonic() + timeout_s)
        left = len(wanted)
        while left:
            ended = await lookup.ended.get()
            again = [name for name, end in ended.items() if on_end(name, end)]
            left -= len(ended) - len(again)
            lookup.begin(again, clock.monotonic() + timeout_s)


class _Lookup:
    """Lookups in progress. Partitions that can be looked up together share a request."""

    def __init__(
        self,
        cluster: Cluster,
        wanted: Mapping[TopicPartition, int],
        settings: ClientSettings,
        clock: Clock,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._settings = settings
        self._clock = clock
        self._tasks = tasks
        self.ended: asyncio.Queue[Found] = asyncio.Queue()
        """Results. Each partition has one for each `begin`."""

    def begin(self, names: Iterable[TopicPartition], deadline: float, attempt: int = 1) -> None:
        """Look these up, with retries until the deadline (monotonic seconds)."""
        known: list[TopicPartition] = []
        unknown: list[TopicPartition] = []
        for name in names:
            (known if self._knows(name) else unknown).append(name)
        if known:
            self._tasks.create_task(self._ask_leaders(known, deadline, attempt))
        if unknown:
            self._tasks.create_task(self._learn(unknown, deadline, attempt))

    def _knows(self, name: TopicPartition) -> bool:
        topic = self._cluster.known_topic(name.topic)
        return topic is not None and name.partition < len(topic.partitions)

    async def _learn(self, names: list[TopicPartition], deadline: float, attempt: int) -> None:
        """Request the metadata of all topics at once, then wait for each topic that is still missing."""
        try:
            await self._cluster.refresh(sorted({name.topic for name in names}))
        except StrandlineError as error:
            await self._failed(dict.fromkeys(names, error), deadline, attempt)
            return
        known: list[TopicPartition] = []
        missing: dict[str, list[TopicPartition]] = {}
        for name in names:
            (known if self._knows(name) else missing.setdefault(name.topic, [])).append(name)
        for topic, some in missing.items():
            self._tasks.create_task(self._await_topic(topic, some, deadline, attempt))
        await self._ask_leaders(known, deadline, attempt)

    async def _await_topic(
        self, topic: str, names: list[TopicPartition], deadline: float, attempt: int
    ) -> None:
        """Wait a moment for a topic, or for a partition of it, that brokers may not know yet."""
        partitions_min = max(name.partition for name in names) + 1
        try:
            known = await self._cluster.topic(topic, partitions_min=partitions_min)
        except StrandlineError as error:
            await self._failed(dict.fromkeys(names, error), deadline, attempt)
            return
        count = len(known.partitions)
        failed: dict[TopicPartition, StrandlineError] = {
            name: UnknownTopicOrPartition(f"{topic} has {count} partitions, there is no {name.partition}")
            for name in names
            if name.partition >= count
        }
        self._tasks.create_task(self._failed(failed, deadline, attempt))
        await self._ask_leaders([name for name in names if name not in failed], deadline, attempt)

    async def _ask_leaders(self, names: list[TopicPartition], deadline: float, attempt: int) -> None:
        """Ask each leader once, all leaders at the same time."""
        failed: dict[TopicPartition, StrandlineError] = {}
        by_broker: dict[int, list[OffsetQuery]] = {}
        for name in names:
            try:
                leader = await self._cluster.led_by(name)
            except StrandlineError as error:
                failed[name] = error
            else:
                by_broker.setdefault(leader.broker, []).append(OffsetQuery(name, self._wanted[name]))
        for broker, queries in by_broker.items():
            self._tasks.create_task(self._ask(broker, queries, deadline, attempt))
        await self._failed(failed, deadline, attempt)

    async def _ask(self, broker: int, queries: list[OffsetQuery], deadline: float, attempt: int) -> None:
        try:
            listed = await self._cluster.call(broker, LIST_OFFSETS, queries)
        except StrandlineError as error:
            await self._failed({query.name: error for query in queries}, deadline, attempt)
            return
        answers = {answer.name: answer for answer in listed}
        found: Found = {}
        failed: dict[TopicPartition, StrandlineError] = {}
        for query in queries:
            answer = answers.get(query.name)
            if answer is None:
                failed[query.name] = LeaderNotAvailable(f"broker {broker} said nothing about {query.name}")
            elif answer.error is not None:
                failed[query.name] = answer.error
            else:
                found[query.name] = answer
        if found:
            self.ended.put_nowait(found)
        await self._failed(failed, deadline, attempt)

    async def _failed(
        self, failed: Mapping[TopicPartition, StrandlineError], deadline: float, attempt: int
    ) -> None:
        """Retry after a pause what may succeed then; the others have ended."""
        late = self._clock.monotonic() >= deadline
        over: Found = {name: error for name, error in failed.items() if late or not error.retriable}
        if over:
            self.ended.put_nowait(over)
        again = [name for name in failed if name not in over]
        for name in again:
            self._cluster.follow(name, failed[name])
        if again:
            await self._clock.sleep(backoff_s(self._settings, attempt))
            self.begin(again, deadline, attempt + 1)
