"""A cluster on virtual time, from one seed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from random import SystemRandom
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from strandline.simulation.engine.clocks import NS_PER_S
from strandline.simulation.engine.loop import Overdue
from strandline.simulation.engine.world import World
from strandline.testing.errors import ConditionNotReached, NotPossible
from strandline.testing.members import Shape
from strandline.testing.played import PlayedCluster

T = TypeVar("T")

SEED_BITS: Final = 31
RUN_S_MAX: Final = 7_200.0
"""The limit of `run` unless the test gives one, in virtual seconds."""


class SimulatedCluster(PlayedCluster):
    """Everything runs in this thread, on virtual time: an hour of waiting costs what happens in it.

        with SimulatedCluster(seed=7) as cluster:
            cluster.run(scenario(cluster))

    `run` takes a coroutine and runs the world until it ends. Within it all of asyncio's tools work: `sleep`,
    `timeout`, tasks, queues, on virtual time. What would reach outside raises NotPlayed, which is a
    NotImplementedError: sockets, subprocesses, signals; `to_thread` runs its function in this thread.

    The same seed and the same code give the same run, message by message; `trace_hash` tells whether two runs
    were the same. A second `with` begins the run anew. Latencies, the errors of clocks, and how long threads
    take are drawn from the seed. Without a seed one is drawn, and is readable as `seed`.

    Raises SettingsError.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        brokers: int = 3,
        controllers: int = 1,
        broker_settings: Mapping[str, Any] | None = None,
        controller_settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(Shape(brokers, controllers, broker_settings or {}, controller_settings or {}))
        self.seed = SystemRandom().getrandbits(SEED_BITS) if seed is None else seed
        self._is_ready = False
        self._last_trace = ""

    def __enter__(self) -> Self:
        self._need_ended()
        self._open(World(self.seed))
        self._is_ready = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._last_trace = self.trace_hash
        self._close(check=error is None)

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = RUN_S_MAX) -> T:
        """Run a coroutine to its end, once all brokers and a controller serve. Returns what it returns.

        May be called several times; between two calls no time passes. Raises what the coroutine raises,
        Deadlock if it waits for something that can never happen, and ConditionNotReached if it has not ended
        after `timeout_s` of virtual time.
        """
        try:
            loop = self._now.world.loop
            if asyncio._get_running_loop() is loop:
                raise NotPossible("this coroutine is run by `run` already: await the other one")
        except NotPossible:
            work.close()
            raise
        try:
            return loop.run(self._now.test.run(self._within(work)), timeout_s)
        except Overdue:
            raise ConditionNotReached(
                f"the coroutine has not ended after {timeout_s} s of virtual time; if it needs longer, give"
                f" `run` a greater timeout_s\n{self.describe()}"
            ) from None

    async def _within(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            if not self._is_ready:
                await self._wait_ready()
                self._is_ready = True
        except BaseException:
            work.close()
            raise
        return await work

    @property
    def now_s(self) -> float:
        """Virtual seconds since the cluster was started."""
        return self._now.world.loop.now_ns() / NS_PER_S

    @property
    def trace_hash(self) -> str:
        """The hash of all messages, commits and faults until now, with their times."""
        return self._last_trace if self._running is None else self._now.world.trace.digest()

    def last_words(self) -> list[str]:
        """What is worth knowing of a run that failed: the trace, the time, and each member while it runs."""
        if self._running is None:
            return [f"trace {self.trace_hash}"]
        return [f"trace {self.trace_hash}, {self.now_s:.3f} s of virtual time", self.describe()]

    def _check_loop(self, loop: asyncio.AbstractEventLoop | None) -> None:
        if loop is not self._now.world.loop:
            where = "no event loop runs" if loop is None else f"the event loop of {type(loop).__name__} runs"
            raise NotPossible(
                f"virtual time passes only in a coroutine that `cluster.run(…)` runs, but here {where}"
            )
