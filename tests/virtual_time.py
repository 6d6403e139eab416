"""Tests that run on virtual time, written as all others are: `async def`, with fixtures."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import signature
from typing import Any

from strandline.simulation.engine.clocks import MachineClock, SimulatedClock
from strandline.simulation.engine.loop import SimulatedLoop


def on_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs the test in `run` of its first argument: a simulated cluster, or what watches one. Its other
    fixtures must not be asynchronous: they would run in the event loop of the other tests."""
    first = next(iter(signature(test).parameters))

    @wraps(test)
    def run(**given: Any) -> None:
        given[first].run(test(**given))

    return run


def clock_of(loop: SimulatedLoop) -> SimulatedClock:
    """The clock of a machine whose time is that of the loop."""
    return SimulatedClock(MachineClock(), loop.now_ns)
