"""A topic is deleted and created again under its name while its producers, consumers and groups live on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Annotated, Final, Literal, get_args

from pydantic import Field

from strandline.adapters.zookeeper import znodes
from strandline.client.admin.admin import Admin
from strandline.errors import StrandlineError
from strandline.host import Host
from strandline.ids import OFFSETS_TOPIC, TopicId
from strandline.ports import NoNode
from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.stage import SYNCED, Stage
from strandline_lab.simulation.workloads.topic import MIN_INSYNC, REPLICAS
from strandline_lab.simulation.workloads.unsteady import readers
from strandline_lab.simulation.workloads.unsteady.plan import UnsteadyPlan
from strandline_lab.simulation.workloads.unsteady.topic import UnsteadyTopic
from strandline_lab.simulation.workloads.workload import Count, Pause, Workload, WorkloadPlan, joined

WriterKind = Literal["idempotent", "plain", "kafka"]
PARTITIONS_MORE: Final = 2
"""A topic has up to this many partitions more than the fewest."""
BATCH_BYTES: Final = ("2000", "1048588")
"""Of a topic's max.message.bytes: one that a few records fill, and the default."""
BURSTS: Final = (0, 20, 80)
"""Records that are written as soon as a topic is there: fewer or more than the one before it had."""
ABSENT_S: Final = (0.0, 0.0, 1.0)
"""How long there is no topic, on average."""
UNAWARE_RATE: Final = 1 / 2
"""The part of all readers that are paused while the topic is replaced: they hear of it when records of the
new one are there."""
UNAWARE_S: Final = 0.5
"""How long they are paused then, on average."""
AGAIN_S: Final = 0.2
REQUEST_TIMEOUT_MS: Final = 3_000


class Replacing(UnsteadyPlan, WorkloadPlan, frozen=True):
    """One topic, replaced every `replaced_s` seconds on average."""

    kind: Literal["replacing"] = "replacing"
    partitions: Count
    """That the topic has each time, at least."""
    writers: Annotated[tuple[WriterKind, ...], Field(min_length=1)]
    """Producers. Their batches are numbered, or not, or they are Kafka's."""
    replaced_s: Pause
    """From one topic to the next, on average."""
    latest: bool = False
    """Members begin at the end of what is there when their group begins. Then nothing is written to the first
    topic, and faults wait for the group: all that it finds has appeared since (G21)."""

    @staticmethod
    def drawn(random: Random, name: str) -> Replacing:
        return Replacing(
            name=name,
            partitions=random.randint(1, 2),
            writers=tuple(random.choice(get_args(WriterKind)) for _ in range(random.randint(1, 3))),
            readers=tuple(random.choice(get_args(readers.Kind)) for _ in range(random.randint(1, 4))),
            pause_s=random.choice((0.2, 0.5)),
            replaced_s=random.choice((2.0, 4.0)),
            change_s=random.choice((1.0, 4.0, 15.0)),
            synced=random.random() < 1 / 2,
            by_hand=random.random() < 1 / 2,
            protocol=random.choice(("eager", "cooperative")),
        )

    def begun_at_the_end(self) -> Replacing:
        """The same with members that read from the end on."""
        return self.model_copy(update={"latest": "member" in self.readers})

    def workload(self, stage: Stage) -> Workload:
        return _Clients(self, stage)


class _Clients(Workload):
    def __init__(self, plan: Replacing, stage: Stage) -> None:
        self._plan = plan
        self._stage = stage
        self._random = stage.random(f"{plan.name} operator")
        self._admin = stage.client(f"{plan.name} operator")
        self._topic = UnsteadyTopic(
            stage, plan.name, plan.partitions, plan.readers, plan.change_s,
            latest=plan.latest, enable_auto_commit=not plan.by_hand, rebalance_protocol=plan.protocol,
        )  # fmt: skip
        for kind in plan.writers:
            self._topic.add_writer(kind, plan.pause_s)
        self._count = plan.partitions
        """Partitions of the topic that is there."""
        self._replacements = 0
        self._replaced = asyncio.Event()
        """The last topic is there, and stays."""

    async def prepare(self) -> None:
        await self._admin.run(self._prepare(self._admin.host))

    async def _prepare(self, host: Host) -> None:
        """What a group knows of its topics survives what these survive."""
        await self._create(host, None)
        if self._plan.latest and self._plan.synced:
            async with Admin(self._stage.cluster.bootstrap, host=host) as admin:
                await admin.group_offsets(self._plan.name)  # this creates the topic
                await admin.alter_topic(OFFSETS_TOPIC, set=SYNCED)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._topic.run(self._replaced, lambda: self._count))
            tasks.create_task(joined(self._admin.run(self._operate(self._admin.host))))

    async def begun(self) -> None:
        while self._plan.latest and not self._topic.has_formed:
            await self._admin.host.clock.sleep(AGAIN_S)

    async def finish(self) -> None:
        await self._replaced.wait()
        await self._admin.run(self._topic.end(self._admin.host, self._count))

    def problems(self) -> list[Problem]:
        return [Problem(self._plan.kind, line) for line in self._topic.problems()]

    def counts(self) -> dict[str, int]:
        return {"records": len(self._topic.log), "topics replaced": self._replacements}

    # --- the operator ------------------------------------------------------------------------

    async def _operate(self, host: Host) -> None:
        if self._plan.latest:
            await self.begun()
            await self._replace(host)
            self._topic.may_write.set()
        while not (self._stage.faults_ended.is_set() and self._replacements):
            await host.clock.sleep(self._random.expovariate(1 / self._plan.replaced_s))
            if self._stage.faults_ended.is_set() and self._replacements:
                break
            await self._replace(host)
        self._replaced.set()

    async def _replace(self, host: Host) -> None:
        unaware = [each for each in self._topic.readers if self._random.random() < UNAWARE_RATE]
        for reader in unaware:
            reader.process.pause()
        before = self._current()
        await self._until(host, lambda: self._current() != before, lambda admin: self._delete(admin, before))
        await host.clock.sleep(self._random.choice(ABSENT_S) * self._random.expovariate(1))
        await self._create(host, before)
        self._replacements += 1
        burst = self._random.choice(BURSTS)
        await self._topic.write(host, [None] * burst)
        await host.clock.sleep(self._random.expovariate(1 / UNAWARE_S))
        for reader in unaware:
            reader.process.resume()

    async def _create(self, host: Host, before: TopicId | None) -> None:
        random = self._random
        self._count = random.randint(self._plan.partitions, self._plan.partitions + PARTITIONS_MORE)
        config = {"min.insync.replicas": str(MIN_INSYNC), "max.message.bytes": random.choice(BATCH_BYTES)}
        if self._plan.synced:
            config |= SYNCED
        count = self._count

        async def create(admin: Admin) -> None:
            await admin.create_topic(self._plan.name, count, REPLICAS, config)

        await self._until(host, lambda: self._current() not in (None, before), create)

    async def _delete(self, admin: Admin, topic_id: TopicId | None) -> None:
        if topic_id is not None:
            await admin.delete_topics({self._plan.name: topic_id})

    async def _until(
        self, host: Host, done: Callable[[], bool], request: Callable[[Admin], Awaitable[None]]
    ) -> None:
        """Repeat a request until ZooKeeper shows that it is done: its outcome is often unknown."""
        bootstrap, timeout_ms = self._stage.cluster.bootstrap, REQUEST_TIMEOUT_MS
        async with Admin(bootstrap, host=host, request_timeout_ms=timeout_ms) as admin:
            while not done():
                try:
                    await request(admin)
                except StrandlineError:
                    await host.clock.sleep(AGAIN_S)

    def _current(self) -> TopicId | None:
        """The id of the topic that has the name; None if none has."""
        try:
            data = self._stage.znodes.get(znodes.topic(self._plan.name)).data
        except NoNode:
            return None
        return znodes.load_topic(self._plan.name, data).topic_id
