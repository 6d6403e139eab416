"""A fault as a value, and what its kind gets to do it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Annotated, NamedTuple

from pydantic import BaseModel, Field

from strandline.simulation.cluster import Cluster
from strandline.simulation.engine.hosts import Machine, SimulatedProcess
from strandline.simulation.engine.network import Network
from strandline.simulation.engine.world import World
from strandline_lab.simulation.stage import Stage


class Fault(BaseModel, frozen=True, extra="forbid"):
    """One fault. What it is done to is drawn when it is done, by its own lots."""

    kind: str
    """A name of `strandline_lab.simulation.faults.every.KINDS`."""
    at_s: Annotated[float, Field(ge=0)]
    """After the faults begin."""
    lasts_s: Annotated[float, Field(ge=0)]
    """Until it is healed; kinds that happen at once do not need it."""
    lot: Annotated[int, Field(ge=0)]
    """The seed of its lots."""


class Step(NamedTuple):
    """Something that a fault did."""

    at_s: float
    what: str
    fault: int | None
    """Its place in the plan; None: it heals what faults left."""


class Done(NamedTuple):
    """A fault of a plan, as it was done. Times are virtual seconds since the run began."""

    fault: int
    """Its place in the plan."""
    began_s: float
    ended_s: float | None
    """None: it lasted until everything was healed."""
    steps: tuple[Step, ...]


@dataclass(slots=True)
class Scene:
    """What faults are done to, and what they did. Each fault has a scene with the same lists."""

    stage: Stage
    fault: int | None = None
    """The fault that this scene is of."""
    steps: list[Step] = field(default_factory=list)
    dark: list[Machine] = field(default_factory=list)
    """Machines without power."""

    @property
    def cluster(self) -> Cluster:
        return self.stage.cluster

    @property
    def world(self) -> World:
        return self.stage.world

    @property
    def network(self) -> Network:
        return self.world.network

    def note(self, what: str) -> None:
        self.world.trace.note(what)
        self.steps.append(Step(self.stage.now_s, what, self.fault))

    def broker(self, random: Random) -> tuple[int, SimulatedProcess]:
        """Any broker, and its number."""
        number = random.randrange(len(self.cluster.brokers))
        return number, self.cluster.brokers[number]

    def restart_broker(self, number: int) -> None:
        """Start a broker unless it runs or its machine has no power."""
        if self.cluster.is_startable(number):
            self.note(f"start broker {number}")
            self.cluster.start_broker(number)

    def restart_controller(self, number: int) -> None:
        """Start a controller unless it runs."""
        if not self.cluster.controllers[number].life.alive:
            self.note(f"start controller {number}")
            self.cluster.start_controller(number)

    def lose_power(self, numbers: Iterable[int]) -> None:
        """Of the machines of these brokers, at once."""
        for number in numbers:
            machine = self.cluster.broker_machines[number]
            if machine not in self.dark:
                self.note(f"broker {number} loses its power")
                self.dark.append(machine)
                self.world.lose_power(machine)

    def return_powers(self, numbers: Iterable[int]) -> None:
        """Switch the machines of these brokers on, and start the brokers."""
        for number in numbers:
            machine = self.cluster.broker_machines[number]
            if machine in self.dark:
                self.return_power(machine)
                self.restart_broker(number)

    def return_power(self, machine: Machine) -> None:
        self.dark.remove(machine)
        self.world.return_power(machine)


Kind = Callable[[Scene, Random, float], Awaitable[None]]
"""Does a fault with these lots, waits for this many seconds, and heals it."""

last = asyncio.sleep
"""Wait for as long as a fault lasts."""
