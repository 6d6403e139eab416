"""Tests that run on virtual time, written as all others are: `async def`, with fixtures."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from strandline.testing import SimulatedCluster

P = ParamSpec("P")


def on_virtual_time(
    test: Callable[Concatenate[SimulatedCluster, P], Coroutine[Any, Any, None]],
) -> Callable[..., None]:
    """Runs the test within its first argument, a fixture `cluster`. Other fixtures of it must not be
    asynchronous: they would run in the event loop of the other tests."""

    @wraps(test)
    def run(cluster: SimulatedCluster, *args: P.args, **kwargs: P.kwargs) -> None:
        cluster.run(test(cluster, *args, **kwargs))

    return run
