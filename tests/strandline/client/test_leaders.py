"""Leaders are asked about their partitions, and one that was replaced meanwhile does not count."""

from __future__ import annotations

import asyncio

from strandline.adapters.codecs.log import LIST_OFFSETS
from strandline.adapters.system.clock import SystemClock
from strandline.client.cluster import Cluster
from strandline.client.offsets import list_offsets
from strandline.client.scope import Scope
from strandline.config.client import ClientSettings
from strandline.ids import TopicPartition
from strandline.ports import Method, Request, Response
from strandline.vocabulary.log import LATEST, ListedOffset
from tests.strandline.client.log_world import LogWorld
from tests.waiting import eventually

NAME = TopicPartition("orders", 0)


class _PausedOnce(LogWorld):
    """The first answer to ListOffsets arrives when `goes_on` is set, as from a process that was paused."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()
        self.answered = 0

    async def call(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        answer = await super().call(address, method, request, timeout_s=timeout_s)
        if method.path == LIST_OFFSETS.path:
            self.answered += 1
            if self.answered == 1:
                await self.goes_on.wait()
        return answer


async def test_the_answer_of_a_leader_that_was_replaced_meanwhile_does_not_count() -> None:
    """Its high watermark is that of then, and its successor may have said a higher one already."""
    world, settings, clock = _PausedOnce(), ClientSettings(), SystemClock()
    (log,) = world.create("orders")
    log.write(3)
    scope = Scope("test", lambda error: None)
    await scope.start()
    cluster = Cluster("broker1:1", settings, world, clock)
    cluster.run(scope)
    try:
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(list_offsets(cluster, {NAME: LATEST}, settings, clock, timeout_s=20))
            await eventually(lambda: world.answered == 1)
            log.lead(2)
            log.write(4)
            await cluster.refresh(["orders"])
            world.goes_on.set()
        found = asked.result()[NAME]
    finally:
        await scope.stop()
    assert isinstance(found, ListedOffset) and (found.offset, world.answered) == (7, 2)
