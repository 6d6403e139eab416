"""Faults between two parts of what is too large for one write, or is written by several.

A process writes parts in a row: `multi`s about topics, each soon after the one before. A fault waits for such
a row, and hits when its k-th part was just committed: the writer has no answer yet, so it has not sent the
next one, or the next ones are on their way.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import Final, NamedTuple

from strandline.adapters.zookeeper import znodes
from strandline.ports import Check
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline.simulation.engine.network import Connection
from strandline_lab.simulation.faults.fault import Scene, last
from strandline_lab.simulation.faults.sequences import SESSION_S

ROW_S_MAX: Final = 10.0
"""How long a fault waits for a row."""
GAP_S_MAX: Final = 0.1
"""From one part of a row to the next."""
PARTS: Final = (1, 6)
"""After how many parts of a row a fault hits: at least and at most."""
CONTROLLER_RATE: Final = 2 / 3
"""The part of these faults that wait for a controller; the others wait for a broker."""
FOLDERS: Final = (f"{znodes.TOPICS}/", f"{znodes.DELETE_TOPICS}/", f"{znodes.REASSIGNED}/")


class _Part(NamedTuple):
    """A part that was just committed, and its place in its row."""

    place: int
    writer: SimulatedProcess
    is_controller: bool
    number: int
    """Of the writer, among the controllers or the brokers."""
    session: int
    connection: Connection


class _Rows:
    """The rows of all controllers, or of all brokers. `part` is done with the first that is the k-th of its
    row."""

    def __init__(self, scene: Scene, wanted: int, *, of_controllers: bool) -> None:
        self._scene = scene
        self._wanted = wanted
        self._of_controllers = of_controllers
        self._rows: dict[int, tuple[int, float]] = {}
        """By session: its parts, and when the last one was committed."""
        self.part: asyncio.Future[_Part] = asyncio.get_running_loop().create_future()

    def look(self) -> None:
        """Called with each transaction, as it is committed."""
        entry, now_s = self._scene.world.zookeeper.log[-1], self._scene.stage.now_s
        written = [each.path for each in entry.request.operations if not isinstance(each, Check)]
        if self.part.done() or entry.link is None or not any(path.startswith(FOLDERS) for path in written):
            return
        end = entry.link.end
        cluster = self._scene.cluster
        for number, writer in enumerate(cluster.controllers if self._of_controllers else cluster.brokers):
            if writer.life is end.peer.process:
                session = entry.session.id
                count, at_s = self._rows.get(session, (0, now_s))
                count = count + 1 if now_s - at_s <= GAP_S_MAX else 1
                self._rows[session] = count, now_s
                if count == self._wanted:
                    who = writer, self._of_controllers, number
                    self.part.set_result(_Part(count, *who, session, end.connection))


async def _next_part(scene: Scene, random: Random, controller_rate: float = CONTROLLER_RATE) -> _Part | None:
    """Returns at the moment at which a part is committed; None if there is none in time."""
    rows = _Rows(scene, random.randint(*PARTS), of_controllers=random.random() < controller_rate)
    scene.world.zookeeper.on_committed.append(rows.look)
    try:
        async with asyncio.timeout(ROW_S_MAX):
            part = await rows.part
    except TimeoutError:
        return None
    finally:
        scene.world.zookeeper.on_committed.remove(rows.look)
    scene.note(f"{part.writer.name} has written {part.place} parts in a row")
    return part


async def kill_writer(scene: Scene, random: Random, lasts_s: float) -> None:
    part = await _next_part(scene, random)
    if part is not None:
        scene.note(f"kill {part.writer.name} between parts")
        part.writer.kill()
        await last(lasts_s)
        (scene.restart_controller if part.is_controller else scene.restart_broker)(part.number)


async def pause_writer(scene: Scene, random: Random, lasts_s: float) -> None:
    """Past the end of its session, so that another one takes over, and this one wakes with parts to write."""
    part = await _next_part(scene, random)
    if part is not None:
        scene.note(f"pause {part.writer.name} between parts")
        part.writer.pause()
        await last(SESSION_S + lasts_s)
        scene.note(f"resume {part.writer.name}")
        part.writer.resume()


async def expire_writer(scene: Scene, random: Random, lasts_s: float) -> None:
    part = await _next_part(scene, random)
    if part is not None and part.session in scene.world.zookeeper.sessions:
        scene.note(f"expire the session of {part.writer.name} between parts")
        scene.world.zookeeper.expire(part.session)


async def reset_writer(scene: Scene, random: Random, lasts_s: float) -> None:
    """The answer to the part is lost, and with it what follows on this connection."""
    part = await _next_part(scene, random)
    if part is not None:
        scene.note(f"reset the connection of {part.writer.name} to ZooKeeper between parts")
        scene.network.reset(part.connection)


async def lose_leader(scene: Scene, random: Random, lasts_s: float) -> None:
    """When the next part is on its way: it is carried out or lost, and its writer does not know which."""
    part = await _next_part(scene, random)
    if part is not None:
        with suppress(TimeoutError):
            async with asyncio.timeout(GAP_S_MAX):
                await scene.world.zookeeper.next_multi(part.writer.machine.host)
        scene.note("ZooKeeper loses its leader between parts")
        scene.world.zookeeper.lose_leader()


async def kill_broker(scene: Scene, random: Random, lasts_s: float) -> None:
    """A broker that a controller writes about, while it does."""
    part = await _next_part(scene, random, controller_rate=1.0)
    if part is not None:
        number, process = scene.broker(random)
        scene.note(f"kill broker {number} between parts")
        process.kill()
        await last(lasts_s)
        scene.restart_broker(number)
