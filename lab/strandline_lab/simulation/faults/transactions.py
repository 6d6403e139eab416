"""Faults between two steps of a transaction, or of a member whose coordinator assigns.

A producer tells of each request as it leaves, and a member of each heartbeat. A fault waits for one, of those
that end a transaction more often than of the others, and hits soon after: as the request arrives, while the
decision is copied, before or behind its answer, while markers are on their way, or before the end of the
transaction is in the log.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from strandline.broker.coordinators.placement import partition_of
from strandline.ids import TopicPartition
from strandline_lab.simulation.faults.fault import Scene, last
from strandline_lab.simulation.faults.machines import WALL_JUMP_MS_MAX
from strandline_lab.simulation.faults.roles import (
    a_led_partition,
    a_partition_led_elsewhere,
    leader_of,
    partitions_of,
)
from strandline_lab.simulation.faults.sequences import (
    LATE_S,
    MARGIN_S,
    SESSION_S,
    is_elected,
    isolate,
    join,
    lead_in_turn,
    part,
)
from strandline_lab.simulation.stage import CoordinatorStep

STEP_S_MAX: Final = 10.0
"""How long a fault waits for a step."""
END_RATE: Final = 2 / 3
"""The part of these faults that wait for the end of a transaction, or for a member that joins, leaves or
says what it has."""
AFTER_S: Final = 0.008
"""A fault hits up to this time after a request has left, and mostly sooner: then the transaction has ended as
a rule."""


class _Steps:
    """`step` is done with the first one that is waited for."""

    def __init__(self, *, end: bool) -> None:
        self._end = end
        self.step: asyncio.Future[CoordinatorStep] = asyncio.get_running_loop().create_future()

    def look(self, step: CoordinatorStep) -> None:
        if not self.step.done() and (not self._end or step.decisive):
            self.step.set_result(step)


async def _coordinator_at_a_step(scene: Scene, random: Random) -> int | None:
    """The number of the broker that coordinates a transaction or a group, at a moment soon after one of its
    requests; None if there is none in time."""
    steps = _Steps(end=random.random() < END_RATE)
    scene.stage.on_coordinator_step.append(steps.look)
    try:
        async with asyncio.timeout(STEP_S_MAX):
            step = await steps.step
    except TimeoutError:
        return None
    finally:
        scene.stage.on_coordinator_step.remove(steps.look)
    after_s = AFTER_S * random.random() ** 2
    await asyncio.sleep(after_s)
    scene.note(f"{after_s * 1000:.1f} ms ago {step.key} has sent: {step.request}")
    partitions = partitions_of(scene, step.topic)
    if not partitions:
        return None
    place = partition_of(step.key, partitions)
    return leader_of(scene, TopicPartition(step.topic, place))


async def kill_coordinator(scene: Scene, random: Random, lasts_s: float) -> None:
    if (number := await _coordinator_at_a_step(scene, random)) is not None:
        await _kill(scene, [number], lasts_s)


async def kill_leader(scene: Scene, random: Random, lasts_s: float) -> None:
    """Of a partition that clients write to: its markers may be on their way."""
    await _coordinator_at_a_step(scene, random)
    if (led := a_led_partition(scene, random)) is not None:
        await _kill(scene, [led.leader], lasts_s)


async def kill_both(scene: Scene, random: Random, lasts_s: float) -> None:
    number, led = await _coordinator_at_a_step(scene, random), a_led_partition(scene, random)
    if number is not None and led is not None:
        await _kill(scene, sorted({number, led.leader}), lasts_s)


async def _kill(scene: Scene, numbers: list[int], lasts_s: float) -> None:
    for number in numbers:
        scene.note(f"kill broker {number}")
        scene.cluster.brokers[number].kill()
    await last(lasts_s)
    for number in numbers:
        scene.restart_broker(number)


async def kill_leader_with_markers(scene: Scene, random: Random, lasts_s: float) -> None:
    """A marker comes to a leader and to one of its followers, and so is not committed. Then the leader is
    gone, and the other follower leads, without the marker."""
    coordinator = await _coordinator_at_a_step(scene, random)
    if coordinator is None:
        return
    led = a_partition_led_elsewhere(scene, random, coordinator)
    if led is None or len(led.others) < 2:
        return
    heir = next(each for each in led.others if each != coordinator)
    scene.note(f"cut broker {heir} off broker {led.leader}, the leader of {led.name}")
    part(scene, led.leader, heir)
    await asyncio.sleep(random.uniform(0, LATE_S - MARGIN_S))
    scene.note(f"kill broker {led.leader}")
    scene.cluster.brokers[led.leader].kill()
    join(scene, led.leader, heir)
    await is_elected(scene, led.name, heir, instead_of=coordinator)
    scene.cluster.brokers[coordinator].resume()
    await last(max(lasts_s, SESSION_S))
    scene.restart_broker(led.leader)


async def lead_in_turn_at_a_step(scene: Scene, random: Random, lasts_s: float) -> None:
    """What one leader wrote of a transaction is given up for the next one's, and that one is gone as well."""
    await _coordinator_at_a_step(scene, random)
    await lead_in_turn(scene, random, lasts_s)


async def set_dates_apart(scene: Scene, random: Random, lasts_s: float) -> None:
    """Of all brokers; then the coordinator is killed, and one with another date reads when a transaction
    began."""
    number = await _coordinator_at_a_step(scene, random)
    if number is None:
        return
    for process in scene.cluster.brokers:
        milliseconds = random.randint(-WALL_JUMP_MS_MAX, WALL_JUMP_MS_MAX)
        scene.note(f"set the date of {process.name} forward by {milliseconds} ms")
        process.machine.clock.jump(milliseconds)
    await _kill(scene, [number], lasts_s)


async def pause_coordinator(scene: Scene, random: Random, lasts_s: float) -> None:
    """Past the end of its session: it wakes with its decisions half done, and another one has continued."""
    if (number := await _coordinator_at_a_step(scene, random)) is not None:
        process = scene.cluster.brokers[number]
        scene.note(f"pause broker {number}, a coordinator, past its session")
        process.pause()
        await last(SESSION_S + random.uniform(-MARGIN_S, 2 * MARGIN_S))
        scene.note(f"resume broker {number}")
        process.resume()


async def stop_coordinator(scene: Scene, random: Random, lasts_s: float) -> None:
    """It is asked to stop, and hands over what it leads."""
    number = await _coordinator_at_a_step(scene, random)
    if number is not None and (process := scene.cluster.brokers[number]).life.alive:
        scene.note(f"ask broker {number}, a coordinator, to stop")
        process.sigterm()
        await asyncio.shield(process.ended)
        await last(lasts_s)
        scene.restart_broker(number)


async def cut_coordinator_off(scene: Scene, random: Random, lasts_s: float) -> None:
    """From the other brokers and ZooKeeper; producers still reach it."""
    if (number := await _coordinator_at_a_step(scene, random)) is not None:
        await isolate(scene, number, SESSION_S + lasts_s)
