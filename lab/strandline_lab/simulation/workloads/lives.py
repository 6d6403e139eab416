"""Clients that are killed, leave, are paused and are doubled while a workload runs, and that come back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from random import Random
from typing import Final, Generic, Protocol, TypeVar

from strandline.errors import StrandlineError
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline_lab.simulation.judging.stops import Stops
from strandline_lab.simulation.stage import Stage

AWAY_S: Final = 3.0
"""How long a client that was killed, or has left, stays away, on average; and how long one is paused."""
TAKEN_OVER_S: Final = 5.0
"""After this time without a word of a client, others have its work."""
AGAIN_S: Final = 0.5
"""After the faults: between the end of a client and its next life."""

LOOK_S: Final = 0.05
"""Between two looks at what each life holds, at least."""


class Life(Protocol):
    """One life of a client, as a process that runs already."""

    @property
    def process(self) -> SimulatedProcess: ...

    @property
    def leave(self) -> asyncio.Event:
        """Set to have the client leave in order, and end."""
        ...


LifeT = TypeVar("LifeT", bound=Life)


class Lives(Generic[LifeT]):
    """All lives of `count` clients. `start` begins life number `life`, from 1, of client `number`, from 0.

    An error of strandline ends a life, as it ends an application. Any other is a defect.

    `holds` says what a life has now, which no other has: its stops are counted.
    `doubles`: the next life of a client may begin while the last one is only paused, as if it were dead.
    `moment` waits, with these lots, for a moment at which a death does most harm; half of the killed clients
    die then. In half of all runs half of the paused clients are paused then, until others have taken their
    work over. Without it, all die and are paused at any time.
    """

    def __init__(
        self,
        stage: Stage,
        name: str,
        count: int,
        change_s: float,
        start: Callable[[int, int], LifeT],
        *,
        doubles: bool = False,
        holds: Callable[[LifeT], Iterable[str]] | None = None,
        moment: Callable[[Random], Awaitable[None]] | None = None,
    ) -> None:
        self._stage = stage
        self._name = name
        self._change_s = change_s
        self._start = start
        self._moment = moment
        self._holds = holds
        self._over = False
        self.present: list[LifeT | None] = [None for _ in range(count)]
        """The life of each client that runs now."""
        self.doubles: list[LifeT] = []
        """Lives that still run, though their clients have another one, or soon will."""
        self._changes = ("kill", "leave", "pause", "double") if doubles else ("kill", "leave", "pause")
        self._gone = [asyncio.Event() for _ in range(count)]
        """Set once the next life of a client is to begin."""
        self.ended: list[tuple[LifeT, int]] = []
        """The lives that are over, and when they ended, in milliseconds."""
        self.defects: list[str] = []
        self.stops = Stops()
        self.changes = 0
        """How often a life began, ended, or was paused."""
        self._next_look_s = 0.0

    @property
    def running(self) -> list[LifeT]:
        return [life for life in (*self.present, *self.doubles) if life is not None]

    async def run(self) -> None:
        """Returns after `end`."""
        if self._holds is not None:
            self._stage.world.trace.on_event.append(self._look)
        async with asyncio.TaskGroup() as tasks:
            for number in range(len(self.present)):
                tasks.create_task(self._keep(number))
            tasks.create_task(self._change(tasks))

    def resume(self) -> None:
        """No client is paused from here on."""
        for life in self.running:
            life.process.resume()

    async def end(self) -> None:
        """Have all clients leave in order."""
        self._over = True
        for life in self.running:
            life.leave.set()
            await life.process.ended

    def errors(self) -> list[tuple[LifeT, StrandlineError]]:
        """The lives that ended with an error of strandline."""
        return [
            (life, life.process.defect)
            for life, _ in self.ended
            if isinstance(life.process.defect, StrandlineError)
        ]

    def counts(self, what: str) -> dict[str, int]:
        """For the report of a run; `what` can stop."""
        found = {
            f"stops of {what}": len(self.stops.over),
            f"moves of {what}": self.stops.moves,
            f"ms of the longest stop of {what}": round(self.stops.longest_s * 1000),
        }
        for _, error in self.errors():
            name = f"ended by {type(error).__name__}"
            found[name] = found.get(name, 0) + 1
        return found

    def _look(self) -> None:
        now_s = self._stage.now_s
        if self._holds is None or self._over or now_s < self._next_look_s:
            return
        self._next_look_s = now_s + LOOK_S
        owners: dict[str, str] = {}
        for life in self.running:
            if life.process.life.alive and not life.process.life.paused:
                owners |= dict.fromkeys(self._holds(life), life.process.name)
        self.stops.see(now_s, owners)

    async def _keep(self, number: int) -> None:
        random = self._stage.random(f"{self._name} {number}")
        lives = 0
        while not self._over:
            lives += 1
            self.changes += 1
            gone = self._gone[number] = asyncio.Event()
            life = self.present[number] = self._start(number, lives)
            life.process.ended.add_done_callback(partial(self._has_ended, life, gone))
            await gone.wait()
            self.present[number] = None
            healing = self._stage.faults_ended.is_set()
            await asyncio.sleep(AGAIN_S if healing else random.expovariate(1 / AWAY_S))

    def _has_ended(self, life: LifeT, gone: asyncio.Event, _: asyncio.Future[None]) -> None:
        gone.set()
        self.changes += 1
        if life in self.doubles:
            self.doubles.remove(life)
        self.ended.append((life, int(self._stage.now_s * 1000)))
        error = life.process.defect
        if error is not None and not isinstance(error, StrandlineError):
            self.defects.append(f"{life.process.name} failed: {error!r}")

    async def _change(self, tasks: asyncio.TaskGroup) -> None:
        random = self._stage.random(f"{self._name} changes")
        pauses = self._stage.random(f"{self._name} moments").random() < 1 / 2
        harmful = ("kill", "pause") if pauses else ("kill",)
        while not self._stage.faults_ended.is_set():
            await asyncio.sleep(random.expovariate(1 / self._change_s))
            number, how = random.randrange(len(self.present)), random.choice(self._changes)
            least_s = 0.0
            if self._moment is not None and how in harmful and random.random() < 1 / 2:
                await self._moment(random)
                least_s = TAKEN_OVER_S
            life = self.present[number]
            if life is None or self._gone[number].is_set() or self._stage.faults_ended.is_set():
                continue
            if how == "kill":
                life.process.kill()
            elif how == "leave":
                life.leave.set()
            else:
                life.process.pause()
                self.changes += 1
                if how == "double":
                    self.doubles.append(life)
                    self._gone[number].set()
                tasks.create_task(_resume(life, least_s + random.expovariate(1 / AWAY_S)))


async def _resume(life: Life, after_s: float) -> None:
    await asyncio.sleep(after_s)
    life.process.resume()
