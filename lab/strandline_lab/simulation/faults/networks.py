"""Faults of the network: cuts, resets and lost answers."""

from __future__ import annotations

from random import Random
from typing import Final

from strandline.simulation.engine.network import Latency
from strandline_lab.simulation.faults.fault import Scene, last

SLOW_S_MAX: Final = 0.3
"""On average, in each direction."""


async def cut(scene: Scene, random: Random, lasts_s: float) -> None:
    """Between two machines, in one direction or both."""
    hosts = [machine.host for machine in scene.world.machines]
    hosts += [server.process.host for server in scene.world.zookeeper.servers]
    one, two = random.sample(hosts, 2)
    both = random.random() < 1 / 2
    scene.note(f"cut {one} off from {two}" if both else f"cut the way from {one} to {two}")
    scene.network.cut(one, two)
    if both:
        scene.network.cut(two, one)
    await last(lasts_s)
    scene.note(f"heal {one} and {two}")
    scene.network.heal(one, two)
    scene.network.heal(two, one)


async def reset(scene: Scene, random: Random, lasts_s: float) -> None:
    connections = list(scene.network.connections.values())
    if connections:
        connection = random.choice(connections)
        scene.note(f"reset connection {connection.number}")
        scene.network.reset(connection)


async def slow(scene: Scene, random: Random, lasts_s: float) -> None:
    """Everything to and from one machine takes long."""
    machine = random.choice(scene.world.machines)
    latency = Latency(spread_s=random.uniform(0, SLOW_S_MAX))
    hosts = [each.host for each in scene.world.machines if each is not machine]
    hosts += [server.process.host for server in scene.world.zookeeper.servers]
    ways = [way for host in hosts for way in ((machine.host, host), (host, machine.host))]
    scene.note(f"slow {machine.host} down by {latency.spread_s * 1000:.0f} ms")
    for way in ways:
        scene.network.latencies[way] = latency
    try:
        await last(lasts_s)
    finally:
        for way in ways:
            scene.network.latencies.pop(way, None)


async def lose_answers(scene: Scene, random: Random, lasts_s: float) -> None:
    """Requests from one machine reach another, and the answers are lost."""
    client, server = random.sample([machine.host for machine in scene.world.machines], 2)
    scene.note(f"lose the answers of {server} to {client}")
    scene.network.lose_answers(server, client)
    await last(lasts_s)
    scene.note(f"lose no more answers of {server} to {client}")
    scene.network.find_answers(server, client)
