"""A log loses its end: replicas without its last records lead, as its topic allows (KIP-320)."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from strandline.adapters.zookeeper import znodes
from strandline.ports import NoNode
from strandline_lab.simulation.faults.fault import Scene, last
from strandline_lab.simulation.faults.roles import an_unclean_partition, leader_of
from strandline_lab.simulation.faults.sequences import BACK_S_MAX, LATE_S, LOOK_S, MARGIN_S, SESSION_S

AHEAD_S_MAX: Final = 2.0
"""How long the log grows, at most, without the replicas that lead later."""


async def cut_log(scene: Scene, random: Random, lasts_s: float) -> None:
    """Some followers are paused until they have left the ISR, and the log grows. Then the other replicas are
    gone, and one of these followers leads. The others come back, and give up the records that it lacks."""
    ahead, _ = await _cut(scene, random)
    await last(lasts_s)
    for number in ahead:
        scene.restart_broker(number)


async def cut_log_and_back(scene: Scene, random: Random, lasts_s: float) -> None:
    """As `cut_log`; but the others come back when these followers are gone. So the log is again as it was."""
    ahead, behind = await _cut(scene, random)
    await last(min(lasts_s, BACK_S_MAX))
    _kill(scene, behind)
    for number in ahead:
        scene.restart_broker(number)
    await last(max(lasts_s, SESSION_S))
    for number in behind:
        scene.restart_broker(number)


async def _cut(scene: Scene, random: Random) -> tuple[list[int], list[int]]:
    """Returns the brokers that are dead, and have more records, and those of which one leads."""
    led = an_unclean_partition(scene, random)
    if led is None:
        return [], []
    brokers = scene.cluster.brokers
    behind = random.sample(led.others, random.randint(1, len(led.others)))
    ahead = [number for number in range(len(brokers)) if number not in behind]
    scene.note(f"pause brokers {behind} until they have left the ISR of {led.name}")
    for number in behind:
        brokers[number].pause()
    await asyncio.sleep(LATE_S + MARGIN_S + random.uniform(0, AHEAD_S_MAX))
    _kill(scene, ahead)
    scene.note(f"resume brokers {behind}")
    for number in behind:
        brokers[number].resume()
    for _ in range(int(SESSION_S / LOOK_S)):
        if leader_of(scene, led.name) in behind:
            break
        await asyncio.sleep(LOOK_S)
    return ahead, behind


def _kill(scene: Scene, numbers: list[int]) -> None:
    scene.note(f"kill brokers {numbers}, and end their sessions")
    for number in numbers:
        scene.cluster.brokers[number].kill()
        _end_session(scene, number)


def _end_session(scene: Scene, number: int) -> None:
    """As if it had been without a heartbeat for long."""
    try:
        owner = scene.stage.znodes.get(znodes.broker(scene.cluster.first_id + number)).ephemeral_owner
    except NoNode:
        return
    if owner in scene.world.zookeeper.sessions:
        scene.world.zookeeper.expire(owner)
