"""How often the cluster is read for those who ask how far a balance is."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from strandline.controller.core.survey import Survey
from strandline.controller.upkeep.recent_survey import KEPT_S_MAX, RecentSurvey
from strandline.ids import TopicPartition
from tests.controller.core.support.surveys import partition, survey
from tests.hand_clock import HandClock


class Cluster:
    """A cluster whose readings are counted."""

    def __init__(self, partitions: int) -> None:
        self.clock = HandClock()
        self.readings = 0
        self.surveys = RecentSurvey(self._read, self._read_again, self.clock)
        self._partitions = [partition(number, (1, 2)) for number in range(partitions)]

    async def _read(self) -> Survey:
        self.readings += 1
        await asyncio.sleep(0)
        return survey(*self._partitions)

    async def _read_again(self, last: Survey, changed: Collection[TopicPartition]) -> Survey:
        await asyncio.sleep(0)
        return survey(*last.partitions[len(changed) :])


async def test_a_large_cluster_is_read_once_for_all_who_ask_within_a_few_seconds() -> None:
    cluster = Cluster(3_000)
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(cluster.surveys.recent()) for _ in range(2)]
    first, second = (each.result() for each in asked)
    cluster.clock.now_s += KEPT_S_MAX - 0.1
    assert first is second is await cluster.surveys.recent()
    assert cluster.readings == 1
    cluster.clock.now_s += 0.2
    assert await cluster.surveys.recent() is not first


async def test_what_upkeep_has_read_serves_others_and_upkeep_always_reads() -> None:
    cluster = Cluster(3_000)
    await cluster.surveys.now()
    read = await cluster.surveys.now()
    assert cluster.readings == 2
    assert await cluster.surveys.recent() is read


async def test_what_was_read_again_serves_others_too() -> None:
    cluster = Cluster(3_000)
    first = await cluster.surveys.again([])
    again = await cluster.surveys.again([first.partitions[0].name])
    assert again.partitions == first.partitions[1:]
    assert await cluster.surveys.recent() is again
    assert cluster.readings == 1


async def test_a_small_cluster_is_read_each_time() -> None:
    """It costs little, and what was just changed is seen."""
    cluster = Cluster(100)
    await cluster.surveys.recent()
    await cluster.surveys.recent()
    assert cluster.readings == 2
