"""Faults of processes: killed, asked to stop, paused."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from strandline_lab.simulation.faults.fault import Scene, last
from strandline_lab.simulation.faults.roles import a_coordinator, active_controller

DELETION_S_MAX: Final = 10.0
"""How long a fault waits for a deletion."""
LOOK_S: Final = 0.001


async def kill_broker(scene: Scene, random: Random, lasts_s: float) -> None:
    number, process = scene.broker(random)
    scene.note(f"kill broker {number}")
    process.kill()
    await last(lasts_s)
    scene.restart_broker(number)


async def stop_broker(scene: Scene, random: Random, lasts_s: float) -> None:
    """As SIGTERM does."""
    number, process = scene.broker(random)
    if process.life.alive:
        scene.note(f"ask broker {number} to stop")
        process.sigterm()
        await asyncio.shield(process.ended)
        await last(lasts_s)
        scene.restart_broker(number)


async def pause(scene: Scene, random: Random, lasts_s: float) -> None:
    """A broker or a controller."""
    process = random.choice([*scene.cluster.brokers, *scene.cluster.controllers])
    scene.note(f"pause {process.name}")
    process.pause()
    await last(lasts_s)
    scene.note(f"resume {process.name}")
    process.resume()


async def kill_controller(scene: Scene, random: Random, lasts_s: float) -> None:
    await _kill_controller(scene, random.randrange(len(scene.cluster.controllers)), lasts_s)


async def kill_active_controller(scene: Scene, random: Random, lasts_s: float) -> None:
    number = active_controller(scene)
    if number is not None:
        await _kill_controller(scene, number, lasts_s)


async def kill_deleting_controller(scene: Scene, random: Random, lasts_s: float) -> None:
    """The active controller is killed when it has begun to delete a topic, and is not done yet."""
    ends_s = scene.stage.now_s + DELETION_S_MAX
    while not scene.stage.topics_being_deleted():
        if scene.stage.now_s > ends_s:
            return
        await asyncio.sleep(LOOK_S)
    await asyncio.sleep(random.uniform(0, LOOK_S))
    await kill_active_controller(scene, random, lasts_s)


async def freeze_coordinator(scene: Scene, random: Random, lasts_s: float) -> None:
    """A broker that coordinates groups is paused."""
    number = a_coordinator(scene, random)
    if number is not None:
        process = scene.cluster.brokers[number]
        scene.note(f"pause {process.name}, a coordinator")
        process.pause()
        await last(lasts_s)
        scene.note(f"resume {process.name}")
        process.resume()


async def _kill_controller(scene: Scene, number: int, lasts_s: float) -> None:
    scene.note(f"kill controller {number}")
    scene.cluster.controllers[number].kill()
    await last(lasts_s)
    scene.restart_controller(number)
