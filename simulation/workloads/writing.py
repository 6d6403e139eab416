"""Producers with acks=all write to a topic, and a consumer reads along."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Literal

from strandline.simulation.judging.judge import Problem
from strandline.simulation.stage import Stage
from strandline.simulation.workloads.topic import ClosedTopic
from strandline.simulation.workloads.workload import Workload, WorkloadPlan, joined


class Writing(WorkloadPlan, frozen=True):
    """`writers` producers send a record to a drawn partition every `pause_s` seconds on average."""

    kind: Literal["writing"] = "writing"
    partitions: int
    writers: int
    pause_s: float
    synced: bool
    """Each record is synced before it is acknowledged."""

    @staticmethod
    def drawn(random: Random, name: str) -> Writing:
        return Writing(
            name=name,
            partitions=random.randint(1, 4),
            writers=random.randint(1, 3),
            pause_s=random.choice((0.02, 0.1, 0.3)),
            synced=random.random() < 1 / 2,
        )

    @property
    def survives_power_loss(self) -> bool:
        return self.synced

    def workload(self, stage: Stage) -> Workload:
        return _Clients(self, stage)


class _Clients(Workload):
    def __init__(self, plan: Writing, stage: Stage) -> None:
        self._plan = plan
        self._stage = stage
        self._topic = ClosedTopic(stage, plan.name, plan.partitions)
        self._admin = stage.client(f"{plan.name} admin")
        self._written = asyncio.Event()
        """Every producer has finished."""

    async def prepare(self) -> None:
        await self._admin.run(self._topic.create(self._admin.host, synced=self._plan.synced))

    async def run(self) -> None:
        plan, topic = self._plan, self._topic
        async with asyncio.TaskGroup() as writing:
            for number in range(plan.writers):
                client = self._stage.client(f"{plan.name} writer {number}")
                writing.create_task(joined(client.run(topic.write(client.name, client.host, plan.pause_s))))
            reader = self._stage.client(f"{plan.name} reader")
            writing.create_task(joined(reader.run(topic.follow(reader.name, reader.host))))
        self._written.set()

    async def finish(self) -> None:
        await self._written.wait()
        await self._admin.run(self._topic.read_all(self._admin.host))

    def problems(self) -> list[Problem]:
        return [Problem(self._plan.kind, each) for each in self._topic.problems()]

    def counts(self) -> dict[str, int]:
        return {"records": len(self._topic.log)}
