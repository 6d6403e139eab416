"""A cluster on virtual time with the calls of `LocalCluster`: one seed decides all that happens."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.host import Host
from strandline.ports import Coordination, Files
from strandline.simulation.cluster import DATA, Cluster
from strandline.simulation.engine.clocks import MachineClock
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline.simulation.engine.world import WALL_MS, World
from strandline.testing.znodes_seen import ZnodesSeen
from tests.waiting import eventually

FIRST_ID = 1
START_S_MAX = 30.0

T = TypeVar("T")


class FaultyCluster:
    """Used as a context manager, and within `run`. At its end no service may have met a defect.

    All clocks are right: the checks of what was recorded compare times of several members.
    """

    def __init__(
        self,
        *,
        seed: int,
        brokers: int = 3,
        controllers: int = 1,
        broker_settings: Mapping[str, Any] | None = None,
        controller_settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._world = World(seed, new_clock=lambda random: MachineClock(wall_ms_at_zero=WALL_MS))
        self._cluster = Cluster(
            self._world,
            brokers=brokers,
            controllers=controllers,
            broker_settings=broker_settings,
            controller_settings=controller_settings,
            first_id=FIRST_ID,
        )
        self._test = self._world.new_process("test", self._world.new_machine())
        self._seen = ZnodesSeen(self._world.zookeeper)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._world.loop.close()
        assert kind is not None or not self._world.defects, self._world.defects

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._world.loop.run_until_complete(self._test.run(work))

    # --- as LocalCluster has it --------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        return ",".join(self._cluster.bootstrap)

    @property
    def host(self) -> Host:
        return self._test.host

    @property
    def broker_ids(self) -> list[int]:
        return [FIRST_ID + number for number in range(len(self._cluster.brokers))]

    @property
    def controller_ids(self) -> list[int]:
        return [FIRST_ID + number for number in range(len(self._cluster.controllers))]

    def data_dir(self, broker_id: int) -> Path:
        return DATA / str(broker_id - FIRST_ID)

    async def start_broker(
        self, broker_id: int, *, wait_s: float | None = START_S_MAX, **settings: Any
    ) -> None:
        earlier = self._seen.session_of(broker_id)
        self._cluster.start_broker(broker_id - FIRST_ID, **settings)
        if wait_s is not None:
            await self._until(lambda: self._seen.session_of(broker_id) not in (None, earlier), wait_s)

    async def stop_broker(self, broker_id: int) -> None:
        await self._stop(self._broker(broker_id))

    async def kill_broker(self, broker_id: int) -> None:
        self._broker(broker_id).kill()

    def lose_disk(self, broker_id: int) -> None:
        """Put an empty disk in the place of that of a broker which does not run."""
        broker = self._broker(broker_id)
        assert not broker.life.alive, broker_id
        broker.machine.disk.lost()

    def pause_broker(self, broker_id: int) -> None:
        self._broker(broker_id).pause()

    def resume_broker(self, broker_id: int) -> None:
        self._broker(broker_id).resume()

    def cut_off_broker(self, broker_id: int) -> None:
        """Cut it off from the other brokers, silently; it still reaches ZooKeeper and clients.
        `start_zookeeper` mends this too."""
        network, host = self._world.network, self._broker(broker_id).machine.host
        for machine in self._cluster.broker_machines:
            if machine.host != host:
                network.cut(machine.host, host)
                network.cut(host, machine.host)

    async def start_controller(
        self, controller_id: int, *, wait_s: float | None = START_S_MAX, **settings: Any
    ) -> None:
        self._cluster.start_controller(controller_id - FIRST_ID, **settings)
        if wait_s is not None:
            await self._until(lambda: self._seen.controller() is not None, wait_s)

    async def stop_controller(self, controller_id: int) -> None:
        await self._stop(self._controller(controller_id))

    async def kill_controller(self, controller_id: int) -> None:
        self._controller(controller_id).kill()

    async def start_zookeeper(self) -> None:
        """Mend the cut."""
        self._world.network.heal_all()

    async def kill_zookeeper(self) -> None:
        """Cut all brokers and controllers off from it."""
        network, servers = self._world.network, self._world.zookeeper.servers
        for machine in (*self._cluster.broker_machines, *self._cluster.controller_machines):
            for server in servers:
                network.cut(machine.host, server.process.host)
                network.cut(server.process.host, machine.host)

    async def wait_serving(self) -> None:
        await self._until(
            lambda: self._seen.brokers() == self.broker_ids and self._seen.controller() is not None,
            START_S_MAX,
        )

    # --- what a test looks at ----------------------------------------------------------------

    def files(self, broker_id: int) -> Files:
        """The broker's disk, as it is now."""
        return self._broker(broker_id).machine.disk.files

    def alive(self, member_id: int, kind: str) -> bool:
        process = self._broker(member_id) if kind == "broker" else self._controller(member_id)
        return process.life.alive

    async def session(self) -> Coordination:
        """A session of the test's own with ZooKeeper."""
        settings = ZooKeeperSettings(zookeeper=self._world.zookeeper.address)
        return await self._test.host.connect_coordination(settings, lambda waited_s: None)

    # --- look up -----------------------------------------------------------------------------

    def _broker(self, broker_id: int) -> SimulatedProcess:
        return self._cluster.brokers[broker_id - FIRST_ID]

    def _controller(self, controller_id: int) -> SimulatedProcess:
        return self._cluster.controllers[controller_id - FIRST_ID]

    async def _stop(self, process: SimulatedProcess) -> None:
        process.sigterm()
        await self._until(lambda: not process.life.alive, START_S_MAX)

    async def _until(self, condition: Any, deadline_s: float) -> None:
        await eventually(condition, deadline_s=deadline_s)
