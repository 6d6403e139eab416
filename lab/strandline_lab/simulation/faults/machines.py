"""Faults of the machines of brokers: power, disks, clocks."""

from __future__ import annotations

from random import Random
from typing import Final

from strandline_lab.simulation.faults.fault import Scene, last

WALL_JUMP_MS_MAX: Final = 120_000
DISK_ERROR_RATE: Final = 0.05
NOTICED_S: Final = 3.5
"""Until the others have noticed that a broker is gone, and its session has ended."""


async def lose_power(scene: Scene, random: Random, lasts_s: float) -> None:
    number, process = scene.broker(random)
    if process.machine not in scene.dark:
        scene.lose_power([number])
        await last(lasts_s)
        scene.return_powers([number])


async def fill_disk(scene: Scene, random: Random, lasts_s: float) -> None:
    number, process = scene.broker(random)
    scene.note(f"fill the disk of broker {number}")
    process.machine.disk.full = True
    await last(lasts_s)
    process.machine.disk.full = False
    _bounce(scene, number)


async def spoil_disk(scene: Scene, random: Random, lasts_s: float) -> None:
    """Some operations fail with EIO."""
    number, process = scene.broker(random)
    scene.note(f"spoil the disk of broker {number}")
    process.machine.disk.error_rate = DISK_ERROR_RATE
    process.machine.disk.spoiled = True
    await last(lasts_s)
    process.machine.disk.error_rate = 0.0
    _bounce(scene, number)


def _bounce(scene: Scene, number: int) -> None:
    """Restart a broker: that mends a replica whose log failed."""
    scene.cluster.brokers[number].kill()
    scene.restart_broker(number)


async def lose_disk(scene: Scene, random: Random, lasts_s: float) -> None:
    """A broker dies with its disk. It gets an empty one once no ISR names it, and refills.

    While an ISR does, the others may need what it alone is sure to have: then it comes back as it was.
    """
    number, process = scene.broker(random)
    if not process.life.alive or process.machine in scene.dark:
        return
    scene.note(f"kill broker {number}, whose disk is dying")
    process.kill()
    await last(max(lasts_s, NOTICED_S))
    if not scene.cluster.is_startable(number):  # another fault may have started it
        return
    if not scene.stage.isr_history.in_sync(scene.cluster.first_id + number):
        scene.note(f"broker {number} gets an empty disk")
        process.machine.disk.lost()
    scene.restart_broker(number)


async def jump_date(scene: Scene, random: Random, lasts_s: float) -> None:
    number, process = scene.broker(random)
    milliseconds = random.randint(-WALL_JUMP_MS_MAX, WALL_JUMP_MS_MAX)
    scene.note(f"set the date of broker {number} forward by {milliseconds} ms")
    process.machine.clock.jump(milliseconds)
