"""Consumers in a group, as tasks of the test: what each was handed out, and what its listener heard."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Self

from strandline import (
    Admin,
    Consumer,
    ConsumerRecord,
    Producer,
    RebalanceListener,
    TopicPartition,
)
from tests.reachable import Reachable
from tests.waiting import eventually

GROUP_SETTINGS: Mapping[str, Any] = {
    "session_timeout_ms": 3_000,
    "heartbeat_interval_ms": 200,
    "offset_reset": "earliest",
    "topics_refresh_ms": 300,
    "auto_commit_interval_ms": 200,
}
"""Short times, so that a test waits for what happens and not for a default."""

POLL_MS = 100
SETTLE_S = 20.0

_numbers = count(1)


async def new_topic(cluster: Reachable, partitions: int, prefix: str = "groups") -> str:
    name = f"{prefix}-{next(_numbers)}"
    async with Admin(cluster.bootstrap, host=cluster.host) as admin:
        await admin.create_topic(name, partitions, replication_factor=3)
    return name


async def write(cluster: Reachable, topic: str, partition: int, how_many: int = 1) -> None:
    """Records, each once the one before is acknowledged."""
    async with Producer(cluster.bootstrap, host=cluster.host) as producer:
        for _ in range(how_many):
            _ = await producer.send_and_wait(topic, b"v", partition=partition)


def new_group() -> str:
    return f"group-{next(_numbers)}"


class RebalanceLog(RebalanceListener):
    """Records the listener's calls, with the generation of each."""

    def __init__(self) -> None:
        self.events: list[tuple[str, frozenset[TopicPartition]]] = []
        self.before: Callable[[str, set[TopicPartition]], Awaitable[None]] | None = None
        """The test's action within each call."""
        self.running = 0

    async def on_assigned(self, added: set[TopicPartition]) -> None:
        await self._hear("assigned", added)

    async def on_revoked(self, removed: set[TopicPartition]) -> None:
        await self._hear("revoked", removed)

    async def on_lost(self, lost: set[TopicPartition]) -> None:
        await self._hear("lost", lost)

    async def _hear(self, kind: str, partitions: set[TopicPartition]) -> None:
        assert not self.running, f"{kind} while another call of the listener runs"
        self.running += 1
        try:
            self.events.append((kind, frozenset(partitions)))
            if self.before is not None:
                await self.before(kind, partitions)
        finally:
            self.running -= 1

    def kinds(self) -> list[str]:
        """Without the assignments of nothing."""
        return [kind for kind, partitions in self.events if partitions or kind != "assigned"]

    def owned(self) -> set[TopicPartition]:
        """The partitions of this consumer by all calls of its listener."""
        owned: set[TopicPartition] = set()
        for kind, partitions in self.events:
            if kind == "assigned":
                assert not owned & partitions, f"{partitions & owned} assigned twice: {self.events}"
                owned |= partitions
            else:
                assert partitions <= owned, f"{partitions - owned} {kind} and never assigned: {self.events}"
                owned -= partitions
        return owned


class Participant:
    """One consumer that reads until a test stops it."""

    def __init__(self, cluster: Reachable, group: str, **settings: Any) -> None:
        given = {"host": cluster.host, **GROUP_SETTINGS, **settings}
        self.consumer = Consumer(cluster.bootstrap, group_id=group, **given)
        self.heard = RebalanceLog()
        self.records: list[ConsumerRecord] = []
        self.errors: list[Exception] = []
        self.handle: Callable[[ConsumerRecord], Awaitable[None]] | None = None
        self.started = asyncio.Event()
        self._stop = asyncio.Event()

    async def read(self) -> None:
        """Read until `stop`, then close. Errors of get calls are kept, and reading continues."""
        async with self.consumer:
            self.started.set()
            while not self._stop.is_set():
                try:
                    batches = await self.consumer.getmany(timeout_ms=POLL_MS)
                except Exception as error:
                    self.errors.append(error)
                    continue
                for batch in batches.values():
                    for record in batch:
                        if self.handle is not None:
                            await self.handle(record)
                        self.records.append(record)

    def stop(self) -> None:
        self._stop.set()

    @property
    def generation(self) -> int:
        return self.consumer.group_metadata().generation

    @property
    def owned(self) -> set[TopicPartition]:
        return self.heard.owned()


class Members:
    """A group's participants, which come and go."""

    def __init__(self, cluster: Reachable, topics: Iterable[str], **settings: Any) -> None:
        self.cluster = cluster
        self.group = new_group()
        self.topics = list(topics)
        self.all: list[Participant] = []
        self.settings = settings
        self._tasks = asyncio.TaskGroup()
        self._running: dict[Participant, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        for participant in self._running:
            participant.stop()
        await self._tasks.__aexit__(*error)

    async def join(self, **settings: Any) -> Participant:
        """One more, which subscribes; it may not have joined yet."""
        participant = Participant(self.cluster, self.group, **{**self.settings, **settings})
        await self.start(participant)
        participant.consumer.subscribe(self.topics, listener=participant.heard)
        return participant

    async def start(self, participant: Participant) -> None:
        self.all.append(participant)
        self._running[participant] = self._tasks.create_task(participant.read())
        await participant.started.wait()

    async def leave(self, participant: Participant) -> None:
        participant.stop()
        await self._running.pop(participant)

    async def settled(self, *participants: Participant, partitions: int) -> None:
        """Return once all partitions are owned by these, none of them idle while another has two more. With a
        leader they are in one generation then; if the coordinator assigns, an epoch of which a member has
        nothing else to hear comes with its next heartbeat."""
        assigned = self.settings.get("group_protocol") == "consumer"

        def balanced() -> bool:
            owned = [participant.owned for participant in participants]
            sizes = [len(own) for own in owned]
            everything = set().union(*owned)
            generations = {participant.generation for participant in participants}
            return (
                len(everything) == sum(sizes) == partitions
                and max(sizes) - min(sizes) <= 1
                and (assigned or len(generations) == 1)
                and all(
                    participant.consumer.assignment() == participant.owned for participant in participants
                )
            )

        await eventually(balanced, deadline_s=SETTLE_S, what=f"{partitions} partitions are shared evenly")

    def seen(self) -> Counter[tuple[str, int, int]]:
        """How often each record was handed out, over all participants."""
        return Counter(
            (record.topic, record.partition, record.offset)
            for member in self.all
            for record in member.records
        )


class Load:
    """Records that are written all the time, round robin over the partitions of topics."""

    def __init__(self, producer: Producer, topics: dict[str, int]) -> None:
        self._producer = producer
        self._places = [(topic, number) for topic, many in topics.items() for number in range(many)]
        self.acked: list[tuple[str, int, int]] = []
        self._stop, self._ended = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        while not self._stop.is_set():
            deliveries = [
                await self._producer.send(topic, b"x" * 20, partition=number)
                for topic, number in self._places
            ]
            for delivery in deliveries:
                done = await delivery
                self.acked.append((done.topic, done.partition, done.offset))
            await eventually(self._paced(), what="the next round")
        self._ended.set()

    def _paced(self) -> Callable[[], bool]:
        """True at the second look: a round every few milliseconds leaves the others time to work."""
        looks = count()
        return lambda: next(looks) > 1

    async def finish(self) -> None:
        """Write no more, and return once all that was written is acknowledged."""
        self._stop.set()
        await self._ended.wait()


@asynccontextmanager
async def loading(cluster: Reachable, topics: dict[str, int]) -> AsyncIterator[Load]:
    """Records are written until the block ends."""
    async with Producer(cluster.bootstrap, host=cluster.host) as producer, asyncio.TaskGroup() as tasks:
        load = Load(producer, topics)
        tasks.create_task(load.run())
        try:
            yield load
        finally:
            await load.finish()
