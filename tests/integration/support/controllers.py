"""Controllers of a cluster that has two: which one is active, and its death at a named step."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from strandline import Admin
from tests.integration.support.harmed import Harmed
from tests.integration.support.harness import ClusterHarness
from tests.waiting import eventually


async def active_controller(cluster: Harmed) -> int:
    """As the brokers know it."""

    async def found() -> int | None:
        async with Admin(cluster.bootstrap, host=cluster.host) as admin:
            controller = (await admin.metadata([])).controller
        return None if controller is None else controller.id

    number = await eventually(found, deadline_s=30, what="a controller is active")
    assert number is not None
    return number


@asynccontextmanager
async def armed_controller(harness: ClusterHarness, point: str) -> AsyncIterator[None]:
    """The active one dies when it comes to the point, which has to happen within the block; the other one
    takes over."""
    cluster = harness.cluster
    for controller in cluster.controller_ids:
        if harness.running(controller, "controller"):
            await cluster.stop_controller(controller)
    first, *others = cluster.controller_ids
    await cluster.start_controller(first, crash_points=point)

    async def leads() -> bool:
        return await active_controller(cluster) == first

    await eventually(leads, deadline_s=30, what=f"controller {first} is active")
    for controller in others:
        await cluster.start_controller(controller)
    yield
    await eventually(
        lambda: not harness.running(first, "controller"),
        deadline_s=30,
        what=f"controller {first} comes to {point}",
    )
