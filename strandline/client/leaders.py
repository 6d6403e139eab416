"""Asks the leader of each partition a question about it. Each partition's answer counts as soon as it
arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from strandline.client.backoff import backoff_s
from strandline.client.cluster import Cluster
from strandline.client.waits import Notice
from strandline.config.client import ClientSettings
from strandline.errors import LeaderNotAvailable, StrandlineError, UnknownTopicOrPartition
from strandline.ids import TopicPartition
from strandline.ports import CallUnknown, Clock, Method


class _OfPartition(Protocol):
    @property
    def name(self) -> TopicPartition: ...

    @property
    def error(self) -> StrandlineError | None: ...


Query = TypeVar("Query")
Answer = TypeVar("Answer", bound=_OfPartition)


@dataclass(frozen=True, slots=True)
class Questions(Generic[Query, Answer]):
    """What leaders are asked: the call, the query about each partition, and how many one call may have."""

    method: Method[Sequence[Query], Sequence[Answer]]
    queries: Mapping[TopicPartition, Query]
    at_once_max: int


async def ask_leaders(
    cluster: Cluster,
    questions: Questions[Query, Answer],
    settings: ClientSettings,
    clock: Clock,
    *,
    timeout_s: float,
) -> dict[TopicPartition, Answer | StrandlineError]:
    """The answer about each partition, or the last error: one that is not retriable, CallUnknown, or the last
    before the timeout."""
    found: dict[TopicPartition, Answer | StrandlineError] = {}

    def keep(name: TopicPartition, end: Answer | StrandlineError) -> bool:
        found[name] = end
        return False

    await ask_each_leader(cluster, questions, settings, clock, timeout_s=timeout_s, on_end=keep)
    return found


async def ask_each_leader(
    cluster: Cluster,
    questions: Questions[Query, Answer],
    settings: ClientSettings,
    clock: Clock,
    *,
    timeout_s: float,
    on_end: Callable[[TopicPartition, Answer | StrandlineError], bool],
) -> None:
    """As `ask_leaders`, but `on_end` gets each partition's answer or error as soon as it is known. True: ask
    again, for another `timeout_s`.

    No partition waits for another one that has no leader, whose broker does not answer, or whose topic does
    not exist. `on_end` is called in the task of the caller.
    """
    async with asyncio.TaskGroup() as tasks:
        lookup = _Lookup(cluster, questions, settings, clock, tasks)
        lookup.begin(questions.queries, clock.monotonic() + timeout_s)
        left = len(questions.queries)
        while left:
            ended = await lookup.ended.get()
            again = [name for name, end in ended.items() if on_end(name, end)]
            left -= len(ended) - len(again)
            lookup.begin(again, clock.monotonic() + timeout_s)


class _Lookup(Generic[Query, Answer]):
    """Lookups in progress. Partitions that can be looked up together share a request."""

    def __init__(
        self,
        cluster: Cluster,
        questions: Questions[Query, Answer],
        settings: ClientSettings,
        clock: Clock,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._cluster = cluster
        self._questions = questions
        self._settings = settings
        self._clock = clock
        self._tasks = tasks
        self.ended: asyncio.Queue[Mapping[TopicPartition, Answer | StrandlineError]] = asyncio.Queue()
        """Results. Each partition has one for each `begin`."""
        self._absent = Notice(clock)
        """Of partitions that do not exist, as far as is known. It counts from the start of the lookup."""
        _ = self._absent.lasting()

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
        by_broker: dict[int, list[tuple[TopicPartition, int]]] = {}
        for name in names:
            try:
                leader = await self._cluster.led_by(name)
            except StrandlineError as error:
                failed[name] = error
            else:
                by_broker.setdefault(leader.broker, []).append((name, leader.epoch))
        size = self._questions.at_once_max
        for broker, led in by_broker.items():
            for start in range(0, len(led), size):
                asked = dict(led[start : start + size])
                self._tasks.create_task(self._ask(broker, asked, deadline, attempt))
        await self._failed(failed, deadline, attempt)

    async def _ask(
        self, broker: int, asked: Mapping[TopicPartition, int], deadline: float, attempt: int
    ) -> None:
        """Ask a broker about partitions that it leads, in these epochs."""
        queries = [self._questions.queries[name] for name in asked]
        try:
            given = await self._cluster.call(broker, self._questions.method, queries)
        except StrandlineError as error:
            await self._failed(dict.fromkeys(asked, error), deadline, attempt)
            return
        answers = {answer.name: answer for answer in given}
        found: dict[TopicPartition, Answer | StrandlineError] = {}
        failed: dict[TopicPartition, StrandlineError] = {}
        replaced: list[TopicPartition] = []
        for name, epoch in asked.items():
            answer = answers.get(name)
            if answer is None:
                failed[name] = LeaderNotAvailable(f"broker {broker} said nothing about {name}")
            elif answer.error is not None:
                failed[name] = answer.error
            elif self._is_replaced(name, epoch):
                replaced.append(name)
            else:
                found[name] = answer
        if found:
            self.ended.put_nowait(found)
        self.begin(replaced, deadline, attempt)
        await self._failed(failed, deadline, attempt)

    def _is_replaced(self, name: TopicPartition, epoch: int) -> bool:
        """A newer leader is known than the one that answered. A paused leader may answer with what was true
        before its successor was asked, so a high watermark could fall."""
        leader = self._cluster.leader(name)
        return leader is not None and leader.epoch > epoch

    async def _failed(
        self, failed: Mapping[TopicPartition, StrandlineError], deadline: float, attempt: int
    ) -> None:
        """Retry after a pause what may succeed then; the others have ended."""
        late = self._clock.monotonic() >= deadline
        over = {
            name: error
            for name, error in failed.items()
            if late or not error.retriable or isinstance(error, CallUnknown)
        }
        if over:
            self.ended.put_nowait(over)
        again = [name for name in failed if name not in over]
        for name in again:
            if self._knows(name):
                self._cluster.follow(name, failed[name])
            else:  # it has no leader to be found: its topic's metadata is requested again
                self._absent.log(f"{name} is waited for", failed[name])
        if again:
            await self._clock.sleep(backoff_s(self._settings, attempt))
            self.begin(again, deadline, attempt + 1)
