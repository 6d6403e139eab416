"""Faults of ZooKeeper: a lost leader, a server on its own, expired sessions."""

from __future__ import annotations

from random import Random

from strandline.simulation.faults.fault import Scene, last


async def lose_leader(scene: Scene, random: Random, lasts_s: float) -> None:
    scene.note("ZooKeeper loses its leader")
    scene.world.zookeeper.lose_leader()


async def isolate(scene: Scene, random: Random, lasts_s: float) -> None:
    servers = scene.world.zookeeper.servers
    number = random.randrange(len(servers))
    if all(server.linked for server in servers):
        scene.note(f"isolate ZooKeeper server {number}")
        scene.world.zookeeper.isolate(number)
        await last(lasts_s)
        scene.note(f"ZooKeeper server {number} rejoins")
        scene.world.zookeeper.rejoin(number)


async def expire(scene: Scene, random: Random, lasts_s: float) -> None:
    sessions = scene.world.zookeeper.sessions
    if sessions:
        session = random.choice(sessions)
        scene.note(f"expire session {session:x}")
        scene.world.zookeeper.expire(session)
