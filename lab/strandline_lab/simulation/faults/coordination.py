"""Faults of ZooKeeper: a lost leader, a server on its own, expired sessions."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import Final

from strandline_lab.simulation.faults.fault import Scene, last
from strandline_lab.simulation.faults.roles import active_controller

OTHERS_WRITE: Final = 1_000
"""Transactions that other applications have made since the copy."""
SEEN_BY_ALL: Final = 10
"""Among this number of further transactions there is one of every member of a cluster."""
SEEN_S: Final = 2.0
TRIES_MAX: Final = 10
WRITE_S_MAX: Final = 10.0
"""How long a fault waits for a write."""


async def lose_leader(scene: Scene, random: Random, lasts_s: float) -> None:
    scene.note("ZooKeeper loses its leader")
    scene.world.zookeeper.lose_leader()


async def lose_leader_under_write(scene: Scene, random: Random, lasts_s: float) -> None:
    """When the active controller has asked for a write, and before it has an answer."""
    number = active_controller(scene)
    if number is None:
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(WRITE_S_MAX):
            await scene.world.zookeeper.next_multi(scene.cluster.controller_machines[number].host)
            await lose_leader(scene, random, lasts_s)


async def set_back(scene: Scene, random: Random, lasts_s: float) -> None:
    """ZooKeeper is restored from a copy that lacks its newest transactions."""
    zookeeper = scene.world.zookeeper
    for _ in range(TRIES_MAX):
        before = len(zookeeper.log)
        zookeeper.others_write(OTHERS_WRITE)
        await asyncio.sleep(SEEN_S)
        whole = zookeeper.leader and all(server.linked for server in zookeeper.servers)
        if whole and before + SEEN_BY_ALL <= len(zookeeper.log) <= before + zookeeper.idle_transactions:
            scene.note("set ZooKeeper back to before transactions that changed nothing of the cluster")
            zookeeper.set_back()
            return


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
