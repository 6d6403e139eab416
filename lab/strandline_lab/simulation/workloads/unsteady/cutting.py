"""A topic allows unclean elections, and its logs lose their ends while its clients and groups live on."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Annotated, Final, Literal, get_args

from pydantic import Field

from strandline.client.admin.admin import Admin
from strandline.host import Host
from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.stage import SYNCED, Stage
from strandline_lab.simulation.workloads.topic import REPLICAS, create_topic
from strandline_lab.simulation.workloads.unsteady import readers
from strandline_lab.simulation.workloads.unsteady.plan import UnsteadyPlan
from strandline_lab.simulation.workloads.unsteady.topic import UnsteadyTopic
from strandline_lab.simulation.workloads.workload import Count, Workload, WorkloadPlan, joined

WriterKind = Literal["idempotent", "plain", "unreplicated", "kafka"]
CONFIG: Final = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
AUTO_COMMIT_MS: Final = 500
"""Some commits are of records that are lost soon."""
BURSTS: Final = (0, 20, 80)
"""Records that are written once a log has lost its end: it ends before or behind where it did."""
UNAWARE_RATE: Final = 1 / 2
"""The part of all readers that are paused before their log loses its end: they hear of it once it has grown
again."""
UNAWARE_S: Final = 0.5
"""How long they are paused after that, on average."""
AHEAD_S_MAX: Final = 1.0
"""From the end of a log's last follower until readers are paused, at most."""
CUT_S_MAX: Final = 8.0
"""How long they wait for a log to lose its end."""
LOOK_S: Final = 0.05


class Cutting(UnsteadyPlan, WorkloadPlan, frozen=True):
    """One topic. Its fault is `cut a log`."""

    kind: Literal["cutting"] = "cutting"
    partitions: Count
    """Of its topic."""
    writers: Annotated[tuple[WriterKind, ...], Field(min_length=1)]
    """Producers. Their batches are numbered, or not, or the leader alone answers, or they are Kafka's."""

    @staticmethod
    def drawn(random: Random, name: str) -> Cutting:
        return Cutting(
            name=name,
            partitions=random.randint(1, 2),
            writers=tuple(random.choice(get_args(WriterKind)) for _ in range(random.randint(1, 3))),
            readers=tuple(random.choice(get_args(readers.Kind)) for _ in range(random.randint(1, 4))),
            pause_s=random.choice((0.1, 0.3)),
            change_s=random.choice((1.0, 4.0, 15.0)),
            synced=random.random() < 1 / 2,
            by_hand=random.random() < 1 / 2,
            protocol=random.choice(("eager", "cooperative")),
        )

    @property
    def remembers_epochs(self) -> bool:
        """Its readers know the epochs of all that they have read: they find where a log parts that is again
        as it was before it was cut."""
        return all(kind == "alone" for kind in self.readers)

    def workload(self, stage: Stage) -> Workload:
        return _Clients(self, stage)


class _Clients(Workload):
    def __init__(self, plan: Cutting, stage: Stage) -> None:
        self._plan = plan
        self._stage = stage
        self._random = stage.random(f"{plan.name} operator")
        self._admin = stage.client(f"{plan.name} operator")
        stage.unclean_topics.add(plan.name)
        self._topic = UnsteadyTopic(
            stage, plan.name, plan.partitions, plan.readers, plan.change_s,
            enable_auto_commit=not plan.by_hand, rebalance_protocol=plan.protocol,
            auto_commit_interval_ms=AUTO_COMMIT_MS,
        )  # fmt: skip
        for kind in plan.writers:
            self._topic.add_writer(kind, plan.pause_s)
        self._steady = asyncio.Event()
        """No log loses its end from here on."""

    async def prepare(self) -> None:
        await self._admin.run(self._create(self._admin.host))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._topic.run(self._steady, lambda: self._plan.partitions))
            tasks.create_task(joined(self._admin.run(self._operate(self._admin.host))))

    async def finish(self) -> None:
        self._steady.set()
        await self._admin.run(self._topic.end(self._admin.host, self._plan.partitions))

    def problems(self) -> list[Problem]:
        return [Problem(self._plan.kind, line) for line in self._topic.problems()]

    def counts(self) -> dict[str, int]:
        return {"records": len(self._topic.log), "logs cut": self._cuts}

    # --- the operator ------------------------------------------------------------------------

    async def _create(self, host: Host) -> None:
        config = CONFIG | (SYNCED if self._plan.synced else {})
        async with Admin(self._stage.cluster.bootstrap, host=host) as admin:
            await create_topic(admin, host, self._plan.name, self._plan.partitions, config)

    async def _operate(self, host: Host) -> None:
        """Keep readers from hearing of a cut at once."""
        while not self._stage.faults_ended.is_set():
            await host.clock.sleep(LOOK_S)
            if self._least_in_sync < REPLICAS:
                await self._through_a_cut(host)

    async def _through_a_cut(self, host: Host) -> None:
        cuts = self._cuts
        await host.clock.sleep(self._random.uniform(0, AHEAD_S_MAX))
        unaware = [each for each in self._topic.readers if self._random.random() < UNAWARE_RATE]
        for reader in unaware:
            reader.process.pause()
        ends_s = self._stage.now_s + CUT_S_MAX
        while self._cuts == cuts and self._stage.now_s < ends_s and not self._stage.faults_ended.is_set():
            await host.clock.sleep(LOOK_S)
        if self._cuts > cuts:
            await self._topic.write(host, [None] * self._random.choice(BURSTS))
            await host.clock.sleep(self._random.expovariate(1 / UNAWARE_S))
        for reader in unaware:
            reader.process.resume()

    @property
    def _least_in_sync(self) -> int:
        """The size of the smallest ISR."""
        self._stage.isr_history.catch_up()
        states = self._stage.isr_history.states
        return min(len(state.isr) for name, state in states.items() if name.topic == self._plan.name)

    @property
    def _cuts(self) -> int:
        """How often a replica that lacked records became a leader."""
        return sum(map(len, self._stage.isr_history.cuts(self._plan.name).values()))
