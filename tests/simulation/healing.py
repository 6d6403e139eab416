"""Healing after a walk: nothing breaks any longer, and the partition must serve again (H10)."""

from __future__ import annotations

import random

from tests.simulation.truth import Violation
from tests.simulation.world import World

ROUNDS_MAX = 60
ROUND_S = 0.3


class Healing:
    """All processes run, and take every possible step in each round."""

    def __init__(self, world: World, lots: random.Random) -> None:
        self._world = world
        self._random = lots

    def run(self) -> None:
        """Raises Violation if the partition does not come back although a replica may lead it."""
        world = self._world
        for machine in world.machines.values():
            machine.paused = False
            if machine.process is None:
                world.start(machine)
        for _ in range(ROUNDS_MAX):
            self._round()
            if self._serves():
                return
        if world.eligible:
            raise Violation(f"H10: not healed, although {world.eligible} may lead: {self._picture()}")

    def _round(self) -> None:
        world = self._world
        world.now += ROUND_S
        for write in tuple(world.zookeeper.writes):
            if not write.arrived:
                world.zookeeper.arrive(write)
            world.answer(write, lost=False)
        for broker in world.assigned:
            process = world.process(broker)
            if process.life is not None:
                process.look_at_the_living()
                process.probe_again()
            if process.life is None:
                process.register()
            if process.candidacy is None:
                process.look_if_notified()
            if process.candidacy is not None and not process.candidacy.sent:
                process.claim()
            if process.target is not None and process.target not in process.links:
                world.connect(process, process.target)
            if process.ask_again:
                process.fetch_again()
            if process.leadership is not None:
                process.leadership.turn()
            if process.leadership is not None and process.leadership.draining and not process.resigning:
                process.resign(leave=False)
        self._deliver()

    def _deliver(self) -> None:
        streams = list(self._world.streams)
        self._random.shuffle(streams)
        for stream in streams:
            server = self._world.process(stream.leader).server
            while stream.open_above and (stream.up or not stream.open_below):
                server.read(stream)
            if stream.open_above:
                server.push(stream, 8)
            while stream.open_below and (stream.down or not stream.open_above):
                self._world.read_below(stream)
        self._world.forget_closed_streams()

    def _serves(self) -> bool:
        """One leader, all replicas in sync with it, all of its log committed."""
        world, state = self._world, self._world.zookeeper.state
        leadership = None if state.leader not in world.machines else world.process(state.leader).leadership
        if leadership is None or leadership.epoch != state.leader_epoch or leadership.draining:
            return False
        if set(state.isr_ids) != set(world.assigned):
            return False
        if leadership.core.high_watermark != leadership.core.log_end_offset:
            return False
        if any(machine.log.records != world.truth.committed for machine in world.machines.values()):
            raise Violation(f"T3: healed, and the logs differ: {self._picture()}")
        return True

    def _picture(self) -> str:
        world = self._world
        rows = [f"{world.zookeeper.state} at version {world.zookeeper.version}"]
        for broker in world.assigned:
            p = world.process(broker)
            leads = None if p.leadership is None else p.leadership.epoch
            rows.append(
                f"{broker}: life {p.life}, knows {p.leader}@{p.leader_epoch}, leads {leads}, "
                f"log {p.log.end}, HW {p.high_watermark}, {p.following}, links {sorted(p.links)}"
            )
        return "\n".join(rows)
