"""The harness on virtual time: a test of faults waits for nothing there, and needs no Java."""

from __future__ import annotations

from collections.abc import Coroutine
from itertools import count
from typing import Any, TypeVar

from strandline.adapters.zookeeper import znodes
from strandline.ports import Files
from tests.integration.support.faulty_cluster import FaultyCluster
from tests.integration.support.harness import ClusterHarness
from tests.integration.support.lives import judge
from tests.integration.support.raw import Brokers

T = TypeVar("T")


class SimulatedHarness(ClusterHarness):
    """Use it within `run`, which has its session and its calls to brokers. What the cluster has recorded
    is judged after a test."""

    cluster: FaultyCluster

    def __init__(self, cluster: FaultyCluster) -> None:
        self.cluster = cluster
        self.usable = True
        self._names = count(1)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.cluster.run(self._judged(work))

    async def _judged(self, work: Coroutine[Any, Any, T]) -> T:
        await self.cluster.wait_serving()
        self.session = await self.cluster.session()
        async with Brokers(self.cluster) as self.brokers:
            found = await work
            if self.usable:
                await self.heal()
                if await self.session.children(znodes.TOPICS):
                    await judge(self)
            return found

    def new_name(self) -> str:
        """The same in each run."""
        return str(next(self._names))

    def files(self, broker: int) -> Files:
        return self.cluster.files(broker)

    def running(self, member: int, kind: str = "broker") -> bool:
        return self.cluster.alive(member, kind)

    async def heal(self) -> None:
        await self.cluster.start_zookeeper()
        for controller in self.cluster.controller_ids:
            if not self.running(controller, "controller"):
                await self.cluster.start_controller(controller, wait_s=None)
        for broker in self.cluster.broker_ids:
            self.cluster.resume_broker(broker)
            if not self.running(broker):
                await self.cluster.start_broker(broker, wait_s=None)
        await self.cluster.wait_serving()
