"""Does faults to a simulated cluster: which ones, how often and to what is drawn from the seed.

Each seed draws weights for the kinds of faults, many of them 0: so a combination of faults that would be rare
if all were equally likely is common in some seeds. Every fault ends after a while, and `heal` ends them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from strandline.simulation.cluster import Cluster
from strandline.simulation.hosts import Machine, SimulatedProcess

PAUSE_S: Final = (0.1, 3.0)
"""Between two faults, on average: drawn once for a seed, mostly short."""
LASTS_S: Final = (0.05, 10.0)
"""How long a fault lasts: between least and most, mostly short."""
WALL_JUMP_MS_MAX: Final = 120_000
DISK_ERROR_RATE: Final = 0.05
USED_RATE: Final = 0.5
"""The part of all kinds of faults that a seed uses."""


class Nemesis:
    """`run` does faults until it is cancelled; then call `heal`."""

    def __init__(self, cluster: Cluster, random: Random, *, power: bool = True) -> None:
        """`power`: machines may lose their power."""
        self.done: list[str] = []
        """The faults, with their times in seconds."""
        self._cluster = cluster
        self._world = cluster.world
        self._random = random
        self._network = cluster.world.network
        self._dark: list[Machine] = []
        kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "kill": self._kill,
            "sigterm": self._sigterm,
            "pause": self._pause,
            "cut": self._cut,
            "reset": self._reset,
            "kill controller": self._kill_controller,
            "lose the ZooKeeper leader": self._lose_leader,
            "isolate a ZooKeeper server": self._isolate,
            "expire a session": self._expire,
            "full disk": self._fill_disk,
            "bad disk": self._spoil_disk,
            "jump of the date": self._jump,
        }
        if power:
            kinds["power"] = self._lose_power
        self._kinds = {name: kind for name, kind in kinds.items() if random.random() < USED_RATE}
        self._weights = [random.random() for _ in self._kinds]
        least, most = PAUSE_S
        self.pause_s = least * (most / least) ** random.random()

    @property
    def kinds(self) -> list[str]:
        """The kinds of faults that this seed uses."""
        return list(self._kinds)

    async def run(self) -> None:
        """Do one fault after another; they overlap."""
        if not self._kinds:
            return
        async with asyncio.TaskGroup() as faults:
            while True:
                await asyncio.sleep(self._random.expovariate(1 / self.pause_s))
                [name] = self._random.choices(list(self._kinds), self._weights)
                faults.create_task(self._do(name))

    async def _do(self, name: str) -> None:
        await self._kinds[name]()

    def heal(self) -> None:
        """End every fault, and run everything that should run."""
        self._note("everything is healed")
        self._network.heal_all()
        for machine in list(self._dark):
            self._return_power(machine)
        for process in self._cluster.brokers:
            disk = process.machine.disk
            if disk.full or disk.error_rate:
                disk.full, disk.error_rate = False, 0.0
                process.kill()  # a replica whose log failed is mended by a restart
        for number, server in enumerate(self._world.zookeeper.servers):
            if not server.linked:
                self._world.zookeeper.rejoin(number)
        for process in [*self._cluster.brokers, *self._cluster.controllers]:
            process.resume()
            if process.stop_requested.is_set():
                process.kill()  # it is about to stop, and has to run again
        self._start_all()

    def _start_all(self) -> None:
        for number, process in enumerate(self._cluster.brokers):
            if not process.life.alive and process.machine not in self._dark:
                self._cluster.start_broker(number)
        for number, process in enumerate(self._cluster.controllers):
            if not process.life.alive:
                self._cluster.start_controller(number)

    # --- lots --------------------------------------------------------------------------------

    async def _last(self) -> None:
        """Wait for as long as a fault lasts."""
        least, most = LASTS_S
        await asyncio.sleep(least + (most - least) * self._random.random() ** 3)

    def _broker(self) -> tuple[int, SimulatedProcess]:
        number = self._random.randrange(len(self._cluster.brokers))
        return number, self._cluster.brokers[number]

    def _note(self, what: str) -> None:
        self._world.trace.note(what)
        self.done.append(f"{self._world.loop.now_ns() / 1e9:.3f} {what}")

    # --- processes ---------------------------------------------------------------------------

    async def _kill(self) -> None:
        number, process = self._broker()
        self._note(f"kill broker {number}")
        process.kill()
        await self._last()
        self._restart(number)

    def _restart(self, number: int) -> None:
        process = self._cluster.brokers[number]
        if not process.life.alive and process.machine not in self._dark:
            self._note(f"start broker {number}")
            self._cluster.start_broker(number)

    async def _sigterm(self) -> None:
        number, process = self._broker()
        if process.life.alive:
            self._note(f"ask broker {number} to stop")
            process.sigterm()
            await process.ended
            await self._last()
            self._restart(number)

    async def _pause(self) -> None:
        process = self._random.choice([*self._cluster.brokers, *self._cluster.controllers])
        self._note(f"pause {process.name}")
        process.pause()
        await self._last()
        self._note(f"resume {process.name}")
        process.resume()

    async def _kill_controller(self) -> None:
        number = self._random.randrange(len(self._cluster.controllers))
        self._note(f"kill controller {number}")
        self._cluster.controllers[number].kill()
        await self._last()
        if not self._cluster.controllers[number].life.alive:
            self._cluster.start_controller(number)

    # --- machines ----------------------------------------------------------------------------

    async def _lose_power(self) -> None:
        number, process = self._broker()
        machine = process.machine
        if machine in self._dark:
            return
        self._note(f"broker {number} loses its power")
        self._dark.append(machine)
        self._world.lose_power(machine)
        await self._last()
        if machine in self._dark:
            self._return_power(machine)
            self._restart(number)

    def _return_power(self, machine: Machine) -> None:
        self._dark.remove(machine)
        self._world.return_power(machine)

    async def _fill_disk(self) -> None:
        number, process = self._broker()
        self._note(f"fill the disk of broker {number}")
        process.machine.disk.full = True
        await self._last()
        process.machine.disk.full = False
        self._bounce(number)

    async def _spoil_disk(self) -> None:
        number, process = self._broker()
        self._note(f"spoil the disk of broker {number}")
        process.machine.disk.error_rate = DISK_ERROR_RATE
        await self._last()
        process.machine.disk.error_rate = 0.0
        self._bounce(number)

    def _bounce(self, number: int) -> None:
        """Restart a broker: that mends a replica whose log failed."""
        self._cluster.brokers[number].kill()
        self._restart(number)

    async def _jump(self) -> None:
        number, process = self._broker()
        milliseconds = self._random.randint(-WALL_JUMP_MS_MAX, WALL_JUMP_MS_MAX)
        self._note(f"set the date of broker {number} forward by {milliseconds} ms")
        process.machine.clock.jump(milliseconds)

    # --- network and ZooKeeper ---------------------------------------------------------------

    async def _cut(self) -> None:
        hosts = [machine.host for machine in self._world.machines]
        hosts += [server.process.host for server in self._world.zookeeper.servers]
        one, two = self._random.sample(hosts, 2)
        both = self._random.random() < 1 / 2
        self._note(f"cut {one} off from {two}" if both else f"cut the way from {one} to {two}")
        self._network.cut(one, two)
        if both:
            self._network.cut(two, one)
        await self._last()
        self._note(f"heal {one} and {two}")
        self._network.heal(one, two)
        self._network.heal(two, one)

    async def _reset(self) -> None:
        connections = list(self._network.connections.values())
        if connections:
            connection = self._random.choice(connections)
            self._note(f"reset connection {connection.number}")
            self._network.reset(connection)

    async def _lose_leader(self) -> None:
        self._note("ZooKeeper loses its leader")
        self._world.zookeeper.lose_leader()

    async def _isolate(self) -> None:
        servers = self._world.zookeeper.servers
        number = self._random.randrange(len(servers))
        if all(server.linked for server in servers):
            self._note(f"isolate ZooKeeper server {number}")
            self._world.zookeeper.isolate(number)
            await self._last()
            self._note(f"ZooKeeper server {number} rejoins")
            self._world.zookeeper.rejoin(number)

    async def _expire(self) -> None:
        sessions = self._world.zookeeper.sessions
        if sessions:
            session = self._random.choice(sessions)
            self._note(f"expire session {session:x}")
            self._world.zookeeper.expire(session)
