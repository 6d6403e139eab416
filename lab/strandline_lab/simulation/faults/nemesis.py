"""Does the faults of a plan at their times, and heals everything after them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from strandline_lab.simulation.faults.every import KINDS
from strandline_lab.simulation.faults.fault import Done, Fault, Scene
from strandline_lab.simulation.stage import Stage

STOPPED_S_MAX: Final = 60.0
"""Until a process has stopped that was asked to, once nothing disturbs it."""


class Nemesis:
    """Faults overlap. Every one ends after a while, and after `run` all have ended."""

    def __init__(self, stage: Stage, faults: Sequence[Fault]) -> None:
        self._scene = Scene(stage)
        self._faults = faults
        self._began_s: dict[int, float] = {}
        self._ended_s: dict[int, float] = {}
        self.healed_s: float | None = None
        """When all faults had ended."""
        self.hung: list[str] = []
        """A line for each process that did not stop."""

    @property
    def steps(self) -> tuple[str, ...]:
        """What was done, with the times in seconds."""
        return tuple(f"{step.at_s:.3f} {step.what}" for step in self._scene.steps)

    @property
    def done(self) -> tuple[Done, ...]:
        """The faults that began, in the order in which they did."""
        steps = self._scene.steps
        return tuple(
            Done(
                number, at_s, self._ended_s.get(number), tuple(step for step in steps if step.fault == number)
            )
            for number, at_s in self._began_s.items()
        )

    async def run(self, seconds: float) -> None:
        """Do the faults for this time, then end those that last and run everything that should run."""
        async with asyncio.TaskGroup() as doing:
            tasks = [doing.create_task(self._do(number)) for number in range(len(self._faults))]
            await asyncio.sleep(seconds)
            for task in tasks:
                task.cancel()
        self._heal()
        await self._await_stops()
        self._start_all()

    async def _do(self, number: int) -> None:
        fault = self._faults[number]
        await asyncio.sleep(fault.at_s)
        self._began_s[number] = self._scene.stage.now_s
        self._scene.stage.faults_begun += 1
        await KINDS[fault.kind](replace(self._scene, fault=number), Random(fault.lot), fault.lasts_s)
        self._ended_s[number] = self._scene.stage.now_s

    def _heal(self) -> None:
        self.healed_s = self._scene.stage.now_s
        scene, cluster, zookeeper = self._scene, self._scene.cluster, self._scene.world.zookeeper
        scene.note("everything is healed")
        scene.network.heal_all()
        for machine in list(scene.dark):
            scene.return_power(machine)
        for process in cluster.brokers:
            disk = process.machine.disk
            if disk.full or disk.error_rate:
                disk.full, disk.error_rate = False, 0.0
                process.kill()  # a replica whose log failed is mended by a restart
        for number, server in enumerate(zookeeper.servers):
            if not server.linked:
                zookeeper.rejoin(number)
        for process in [*cluster.brokers, *cluster.controllers]:
            process.resume()
        self._start_all()

    async def _await_stops(self) -> None:
        """Kill what does not stop in time, although it was asked to and nothing disturbs it."""
        processes = [*self._scene.cluster.brokers, *self._scene.cluster.controllers]
        stopping = {each.ended: each for each in processes if each.stopping and each.life.alive}
        if not stopping:
            return
        _, left = await asyncio.wait(stopping, timeout=STOPPED_S_MAX)
        for process in (stopping[ended] for ended in left):
            self.hung.append(f"{process.name} has not stopped {STOPPED_S_MAX:g} s after the last fault")
            process.kill()

    def _start_all(self) -> None:
        cluster = self._scene.cluster
        for number, process in enumerate(cluster.brokers):
            if not process.life.alive:
                cluster.start_broker(number)
        for number, process in enumerate(cluster.controllers):
            if not process.life.alive:
                cluster.start_controller(number)
