"""Producers of one kind write to a topic, and a consumer reads along."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final, Literal, get_args

from strandline.auditing import checks
from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads.topic import ClosedTopic
from strandline_lab.simulation.workloads.workload import Count, Pause, Workload, WorkloadPlan, joined

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Acks = Literal[-1, 0, 1]

NULL_RATE: Final = 0.1
"""The part of all records with keys that have no value."""

MAY_REPEAT: Final = frozenset({checks.DUPLICATED.name, checks.REORDERED.name})
"""A producer that is not idempotent sends again what may have arrived."""
MAY_LOSE: Final = frozenset(
    {
        checks.LOST.name, checks.WATERMARK.name, checks.INCONSISTENT.name,
        checks.UNSEEN.name, checks.REORDERED.name, checks.GAP.name,
    }
)  # fmt: skip
"""If no replica has synced a record, it can vanish with the power, and others take its offset (E3)."""


class Writing(WorkloadPlan, frozen=True):
    """`writers` producers send a record every `pause_s` seconds on average."""

    kind: Literal["writing"] = "writing"
    partitions: Count
    """Of its topic."""
    writers: Count
    """Producers. One consumer reads along."""
    pause_s: Pause
    """Between two records of a writer, on average."""
    min_insync: Literal[1, 2] = 2
    """The topic's min.insync.replicas."""
    synced: bool
    """Each record is synced before it is acknowledged."""
    may_lose: bool = False
    """Machines may lose their power though nothing is synced: what that may cost is no problem."""
    acks: Acks = -1
    """How many replicas answer for a record; −1: all that are in sync."""
    idempotent: bool = True
    """Producers number their batches, so that a repeated one is stored once."""
    conditional: bool = False
    """Each append names the offset at which the log must end. `acks` and `idempotent` keep their defaults."""
    keyed: bool = False
    """Records have keys, which say where they go, and some have no value."""
    compression: Compression = "none"
    """Of the batches."""

    @staticmethod
    def drawn(random: Random, name: str) -> Writing:
        synced = random.random() < 1 / 2
        acks: Acks = random.choice((-1, -1, *get_args(Acks)))
        conditional = acks == -1 and random.random() < 1 / 4
        return Writing(
            name=name,
            partitions=random.randint(1, 4),
            writers=random.randint(1, 3),
            pause_s=random.choice((0.05, 0.1, 0.3)),
            min_insync=random.choice((1, 2, 2)),
            synced=synced,
            may_lose=not synced and random.random() < 1 / 3,
            acks=acks,
            idempotent=acks == -1 and (conditional or random.random() < 3 / 4),
            conditional=conditional,
            keyed=not conditional and random.random() < 1 / 3,
            compression=random.choice(("none", "none", *get_args(Compression))),
        )

    @property
    def survives_power_loss(self) -> bool:
        """A loss that may happen without a sync is recorded, and not judged: see `ClosedTopic.problems`."""
        return True

    def allowed(self, *, power_lost: bool) -> frozenset[str]:
        """The checks whose findings are no problems. `power_lost`: of any machine."""
        allowed: frozenset[str] = frozenset()
        if not self.idempotent:
            allowed |= MAY_REPEAT
        if self.may_lose and power_lost:
            allowed |= MAY_LOSE
        return allowed

    @property
    def settings(self) -> dict[str, Any]:
        """Of the producers."""
        return {
            "acks": self.acks,
            "enable_idempotence": self.idempotent,
            "compression": self.compression,
        }

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
        plan, host = self._plan, self._admin.host
        await self._admin.run(self._topic.create(host, synced=plan.synced, min_insync=plan.min_insync))

    async def run(self) -> None:
        plan, topic = self._plan, self._topic
        async with asyncio.TaskGroup() as writing:
            for number in range(plan.writers):
                writing.create_task(self._write(f"{plan.name} writer {number}"))
            reader = self._stage.client(f"{plan.name} reader")
            writing.create_task(joined(reader.run(topic.follow(reader.name, reader.host))))
        self._written.set()

    async def _write(self, name: str) -> None:
        plan, topic, client = self._plan, self._topic, self._stage.client(name)
        if plan.conditional:
            await joined(client.run(topic.append(name, client.host, plan.pause_s, **plan.settings)))
            return
        line = _line if plan.keyed else None
        await joined(
            client.run(
                topic.write(
                    name,
                    client.host,
                    plan.pause_s,
                    line=line,
                    placed=not plan.keyed,
                    certain=plan.acks == -1,
                    **plan.settings,
                )
            )
        )

    async def finish(self) -> None:
        await self._written.wait()
        await self._admin.run(self._topic.read_all(self._admin.host))

    def problems(self) -> list[Problem]:
        allowed = self._plan.allowed(power_lost=self._stage.power_losses > 0)
        return [Problem(self._plan.kind, each) for each in self._topic.problems(allowed)]

    def counts(self) -> dict[str, int]:
        return {"records": len(self._topic.log)}


def _line(random: Random, unique: bytes) -> tuple[bytes, bytes | None]:
    return unique, None if random.random() < NULL_RATE else unique
