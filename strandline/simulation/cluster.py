"""A simulated cluster: real brokers and controllers, each on a machine of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from strandline.broker.process import Broker
from strandline.config.load import build
from strandline.config.services.broker import BrokerSettings
from strandline.config.services.controller import ControllerSettings
from strandline.controller.process import serve
from strandline.host import ServiceHost
from strandline.simulation.engine.hosts import Machine, SimulatedProcess
from strandline.simulation.engine.world import World

BROKER_PORT: Final = 9092
CONTROLLER_PORT: Final = 9090
KAFKA_PORT: Final = 9093
"""Where brokers serve Kafka clients, if their settings say so."""
DATA: Final = Path("/data")


class Cluster:
    """Brokers and controllers by their numbers, which count from 0. `settings` are for all brokers, or for
    all controllers; this process's environment sets none of them. `own_settings` are those of single brokers,
    in their order. `first_id` is the id of the first broker, and of the first controller."""

    def __init__(
        self,
        world: World,
        *,
        brokers: int = 3,
        controllers: int = 1,
        broker_settings: Mapping[str, Any] | None = None,
        controller_settings: Mapping[str, Any] | None = None,
        own_settings: Sequence[Mapping[str, Any]] = (),
        first_id: int = 0,
    ) -> None:
        self.world = world
        self.first_id = first_id
        zookeeper = world.zookeeper.address
        for_brokers = {"broker_id": first_id, "data_dir": DATA, "port": BROKER_PORT, "zookeeper": zookeeper}
        for_controllers = {"port": CONTROLLER_PORT, "zookeeper": zookeeper}
        self._broker_settings = build(BrokerSettings, {**(broker_settings or {}), **for_brokers}, {})
        self._own_settings = own_settings or [{}] * brokers
        self._controller_settings = build(
            ControllerSettings, {**(controller_settings or {}), **for_controllers}, {}
        )
        self.broker_machines: list[Machine] = [world.new_machine() for _ in range(brokers)]
        self.controller_machines: list[Machine] = [world.new_machine() for _ in range(controllers)]
        self.running: dict[int, Broker] = {}
        """The brokers that run or ran last, by number."""
        self.brokers: list[SimulatedProcess] = [self._new_broker(number) for number in range(brokers)]
        self.controllers: list[SimulatedProcess] = [self._new_controller(n) for n in range(controllers)]

    @property
    def broker_ids(self) -> range:
        """The ids of all brokers, whether they run or not."""
        return range(self.first_id, self.first_id + len(self.brokers))

    @property
    def isr_trail_events_max(self) -> int:
        """The setting of all brokers."""
        return self._broker_settings.isr_trail_events_max

    @property
    def bootstrap(self) -> list[str]:
        """The addresses of all brokers."""
        return [f"{machine.host}:{BROKER_PORT}" for machine in self.broker_machines]

    @property
    def kafka_bootstrap(self) -> list[str]:
        """The addresses of all brokers for Kafka clients."""
        return [f"{machine.host}:{KAFKA_PORT}" for machine in self.broker_machines]

    def is_startable(self, number: int) -> bool:
        """The broker's process has ended, and its machine has power."""
        process = self.brokers[number]
        return not process.life.alive and self.world.network.has_power(process.machine.host)

    def start_broker(self, number: int, **settings: Any) -> None:
        """Run the broker again on what its disk has. Its process must have ended. `settings` replace those of
        all brokers in this life."""
        assert not self.brokers[number].life.alive, f"broker {number} runs"
        self.brokers[number] = self._new_broker(number, settings)

    def start_controller(self, number: int, **settings: Any) -> None:
        """As `start_broker`."""
        assert not self.controllers[number].life.alive, f"controller {number} runs"
        self.controllers[number] = self._new_controller(number, settings)

    def _new_broker(self, number: int, given: Mapping[str, Any] = {}) -> SimulatedProcess:
        machine = self.broker_machines[number]
        own = {"broker_id": self.first_id + number, "host": machine.host, "data_dir": DATA / str(number)}
        settings = self._broker_settings.model_copy(update={**self._own_settings[number], **given, **own})

        async def run(host: ServiceHost) -> None:
            self.running[number] = Broker(settings, host)
            await self.running[number].run()

        process = self.world.new_process(f"broker {settings.broker_id}", machine)
        process.start(run)
        return process

    def _new_controller(self, number: int, given: Mapping[str, Any] = {}) -> SimulatedProcess:
        machine = self.controller_machines[number]
        own = {"controller_id": self.first_id + number, "host": machine.host}
        settings = self._controller_settings.model_copy(update={**given, **own})

        async def run(host: ServiceHost) -> None:
            await serve(settings, host)

        process = self.world.new_process(f"controller {settings.controller_id}", machine)
        process.start(run)
        return process
