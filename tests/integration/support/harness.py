"""A cluster to be harmed: what its tests look at (ZooKeeper's and the brokers' word) and wait for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from strandline import Admin, NewTopic
from strandline.adapters.system.files import SYSTEM_FILES
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.connect import connect
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.adapters.zookeeper.session import ZooKeeperSession
from strandline.broker.storage.inspect import BatchFacts, dump, verify
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.ids import BrokerId, TopicPartition
from strandline.local.cluster import LocalCluster
from strandline.ports import Coordination, Files, NoNode
from strandline.vocabulary.metadata import PartitionState, Registration
from tests.integration.support.harmed import Harmed
from tests.integration.support.raw import Brokers
from tests.waiting import eventually

SESSION_TIMEOUT_MS = 1_500
KEEP_IN_SYNC_MS = 1_000
FAULT_SETTINGS: Mapping[str, Any] = {
    "zookeeper_session_timeout_ms": SESSION_TIMEOUT_MS,
    "keep_in_sync_ms": KEEP_IN_SYNC_MS,
    "session_margin_ms": 300,
    "reconcile_ms": 1_000,
    "watermark_checkpoint_ms": 500,
    "preferred_leader_check_ms": 3_600_000,
}
"""Short times, so that a test waits for an expiry and not for its default. Leaders move when it says so."""

SETTLE_S_MAX = 30.0

T = TypeVar("T")


async def present(
    find: Callable[[], Awaitable[T | None]], *, what: str, deadline_s: float = SETTLE_S_MAX
) -> T:
    """The first thing that is found."""
    found = await eventually(find, deadline_s=deadline_s, what=what)
    assert found is not None
    return found


class ClusterHarness(ABC):
    """One cluster with the test's own eyes on it."""

    cluster: Harmed
    session: Coordination
    brokers: Brokers
    usable: bool
    """False where a test left behind what no cluster comes back from: its story is not judged then."""

    # --- topics --------------------------------------------------------------------------------

    async def create_topic(
        self, assignment: Sequence[Sequence[int]], config: Mapping[str, str] | None = None
    ) -> Topic:
        """A topic with its replicas on these brokers, the preferred one first, once it is led."""
        name = f"faults-{self.new_name()}"
        async with Admin(self.cluster.bootstrap, host=self.cluster.host) as admin:
            await admin.create_topics(
                [NewTopic(name, len(assignment), assignments=assignment, config=config or {})]
            )
        topic = Topic(self, name, [tuple(replicas) for replicas in assignment])
        await topic.settled()
        return topic

    def new_name(self) -> str:
        """A part of a name that no other topic has."""
        return uuid4().hex[:8]

    # --- live processes ------------------------------------------------------------------------

    async def live(self) -> dict[BrokerId, Registration]:
        """The registrations, as ZooKeeper has them."""
        found: dict[BrokerId, Registration] = {}
        for child in await self.session.children(znodes.BROKER_IDS):
            try:
                node = await self.session.get(znodes.broker(int(child)))
            except NoNode:
                continue
            found[BrokerId(int(child))] = znodes.load_registration(int(child), node.data, node.czxid)
        return found

    async def broker_epoch(self, broker: int) -> int:
        """-1 while it is not registered."""
        registration = (await self.live()).get(BrokerId(broker))
        return -1 if registration is None else registration.epoch

    @abstractmethod
    def running(self, member: int, kind: str = "broker") -> bool: ...

    @abstractmethod
    async def heal(self) -> None:
        """Start, wake and disarm every process that a test left dead, paused or armed."""

    # --- disks ---------------------------------------------------------------------------------

    @abstractmethod
    def files(self, broker: int) -> Files:
        """The disk of a broker."""

    def folders(self, broker: int, prefix: str) -> list[Path]:
        """The folders of replicas whose names begin so."""
        home = self.cluster.data_dir(broker)
        names = self.files(broker).directories(home)
        return [home / name for name in sorted(names) if name.startswith(prefix)]


class Harness(ClusterHarness):
    """Of a cluster of processes."""

    cluster: LocalCluster
    session: ZooKeeperSession

    def __init__(self, cluster: LocalCluster, session: ZooKeeperSession, brokers: Brokers) -> None:
        self.cluster = cluster
        self.session = session
        self.brokers = brokers
        self.usable = True

    def files(self, broker: int) -> Files:
        return SYSTEM_FILES

    def log_text(self, broker: int) -> str:
        """All that the broker printed so far."""
        return self.cluster.log_path(broker).read_text(errors="replace")

    async def heal(self) -> None:
        if self._has("zookeeper") and not self.running(1, "zookeeper"):
            await self.cluster.start_zookeeper()
        for controller in self.cluster.controller_ids:
            if not self.running(controller, "controller"):
                await self.cluster.start_controller(controller, wait_s=None, crash_points="")
        for broker in self.cluster.broker_ids:
            self.cluster.resume_broker(broker)
            if not self.running(broker):
                await self.cluster.start_broker(broker, wait_s=None, crash_points="")
        await self.cluster.wait_serving()

    def _has(self, kind: str) -> bool:
        return any(m.kind == kind for m in self.cluster.members())

    def running(self, member: int, kind: str = "broker") -> bool:
        return any(m.kind == kind and m.id == member and m.alive for m in self.cluster.members())


class Topic:
    """One topic of a harness."""

    def __init__(self, harness: ClusterHarness, name: str, assignment: Sequence[tuple[int, ...]]) -> None:
        self.harness = harness
        self.name = name
        self.assignment = assignment
        self.partitions = [TopicPartition(name, number) for number in range(len(assignment))]

    @property
    def local(self) -> Harness:
        """The harness, if the cluster's members are processes."""
        assert isinstance(self.harness, Harness)
        return self.harness

    # --- what ZooKeeper says -------------------------------------------------------------------

    async def state(self, partition: int = 0) -> PartitionState:
        node = await self.harness.session.get(znodes.isr(self.name, partition))
        return isr_znodes.load_isr(self.name, partition, node.data)

    async def led_above(
        self, epoch: int, partition: int = 0, *, deadline_s: float = SETTLE_S_MAX
    ) -> PartitionState:
        """The state once a leader of a higher epoch stands."""

        async def found() -> PartitionState | None:
            state = await self.state(partition)
            return state if state.leader_epoch > epoch and state.leader >= 0 else None

        what = f"{self.name}-{partition} has a leader above epoch {epoch}"
        return await present(found, deadline_s=deadline_s, what=what)

    async def isr_is(
        self, *members: int, partition: int = 0, deadline_s: float = SETTLE_S_MAX
    ) -> PartitionState:
        """The state once the ISR has just these members, each in its present life."""

        async def found() -> PartitionState | None:
            state, live = await self.state(partition), await self.harness.live()
            present = {
                m.broker for m in state.isr if m.broker in live and live[m.broker].epoch == m.broker_epoch
            }
            return state if set(state.isr_ids) == set(members) == present else None

        what = f"the ISR of {self.name}-{partition} is {sorted(members)}"
        return await present(found, deadline_s=deadline_s, what=what)

    # --- what the brokers say ------------------------------------------------------------------

    async def end(self, partition: int = 0) -> tuple[int, int]:
        """(HW, LEO) once the leader of record reports them."""

        async def found() -> tuple[int, int] | None:
            leader = (await self.state(partition)).leader
            if leader < 0:
                return None
            listed = await self.harness.brokers.latest(leader, self.partitions[partition])
            if listed is None or listed.error is not None:
                return None
            return listed.high_watermark, listed.log_end_offset

        what = f"the leader of {self.name}-{partition} reports its high watermark"
        return await present(found, what=what)

    async def settled(self, *, deadline_s: float = SETTLE_S_MAX) -> None:
        """Return once every ISR is whole and everything appended is committed."""
        for number, replicas in enumerate(self.assignment):
            await self.isr_is(*replicas, partition=number, deadline_s=deadline_s)

            async def at_rest(number: int = number) -> bool:
                watermark, log_end = await self.end(number)
                return watermark == log_end

            await eventually(at_rest, deadline_s=deadline_s, what=f"{self.name}-{number} is at rest")

    # --- what lies on the disks ----------------------------------------------------------------

    def folder(self, broker: int, partition: int = 0) -> Path:
        """The replica's folder in the broker's data folder."""
        (found,) = self.harness.folders(broker, f"{self.name}-{partition}-")
        return found

    async def differences(self) -> list[str]:
        """The differences between replicas below the HW, and damage in their files. At rest: none."""
        found: list[str] = []
        for number, replicas in enumerate(self.assignment):
            watermark, _ = await self.end(number)
            logs = {
                broker: stored(self.folder(broker, number), watermark, self.harness.files(broker))
                for broker in replicas
            }
            for broker in replicas:
                found += [
                    f"broker {broker}: {finding}"
                    for finding in verify(self.folder(broker, number), files=self.harness.files(broker))
                ]
            first = replicas[0]
            for broker in replicas[1:]:
                found += _compare(f"{self.name}-{number}", first, logs[first], broker, logs[broker])
        return found

    async def agreed(self, *, deadline_s: float = SETTLE_S_MAX) -> None:
        """Return once the topic is settled and every replica's files are byte-equal below the HW."""
        await self.settled(deadline_s=deadline_s)
        assert await self.differences() == []


def stored(folder: Path, below: int, files: Files = SYSTEM_FILES) -> list[tuple[BatchFacts, bytes]]:
    """Every batch below an offset, with its bytes."""
    found = []
    for batch in dump(folder, files=files):
        if batch.last_offset < below:
            segment = files.open(Path(batch.file))
            try:
                found.append((batch, files.read(segment, batch.size, batch.position)))
            finally:
                files.close(segment)
    return found


def _compare(
    name: str,
    one: int,
    ones: list[tuple[BatchFacts, bytes]],
    other: int,
    others: list[tuple[BatchFacts, bytes]],
) -> list[str]:
    for (batch, data), (other_batch, other_data) in zip(ones, others, strict=False):
        if data != other_data:
            return [f"{name}: broker {one} has {batch}, broker {other} has {other_batch}"]
    if len(ones) != len(others):
        return [f"{name}: broker {one} has {len(ones)} batches, broker {other} has {len(others)}"]
    return []


@asynccontextmanager
async def watching(cluster: LocalCluster, **settings: Any) -> AsyncIterator[Harness]:
    """The harness of a running cluster. `settings` are those of its own session."""
    own = {"zookeeper": cluster.zookeeper, "zookeeper_session_timeout_ms": 120_000, **settings}
    session = await connect(ZooKeeperSettings(**own))
    try:
        async with Brokers(cluster) as brokers:
            yield Harness(cluster, session, brokers)
    finally:
        await session.close()
