"""Faults of the network: cuts and resets."""

from __future__ import annotations

from random import Random

from strandline.simulation.faults.fault import Scene, last


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
