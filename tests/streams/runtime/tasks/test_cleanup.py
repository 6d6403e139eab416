"""When the store of a task that has left is removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.adapters.system_host import SystemThreads
from strandline.streams import TaskId
from strandline.streams.runtime.tasks.cleanup import StoreCleanup
from strandline.streams.storage.memory_stores import MemoryStores
from strandline.streams.storage.slots import StateFolder
from strandline.streams.storage.stores import StateStores
from tests.hand_clock import HandClock

ONE, TWO = TaskId("words", 1), TaskId("words", 2)
DELAY_S = 60.0


@pytest.fixture(params=["memory", "disk"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> StateStores:
    return MemoryStores() if request.param == "memory" else StateFolder.take(tmp_path, "counting")


async def test_a_store_is_removed_once_its_task_has_been_away_for_the_delay(stores: StateStores) -> None:
    """A task that comes back in between begins anew to be away; a store that is in use stays."""
    clock, here = HandClock(), {ONE, TWO}
    cleanup = StoreCleanup(stores, here.__contains__, delay_s=DELAY_S, clock=clock, threads=SystemThreads())

    async def later(seconds: float) -> list[TaskId]:
        clock.now_s += seconds
        await cleanup.check()
        return stores.kept()

    for task in (ONE, TWO):
        stores.open(task, "id").close()
    assert await later(10 * DELAY_S) == [ONE, TWO]
    here -= {ONE}
    assert await later(0) == await later(DELAY_S - 1) == [ONE, TWO]
    here |= {ONE}
    assert await later(10) == [ONE, TWO]
    here -= {ONE, TWO}
    assert await later(0) == await later(DELAY_S - 1) == [ONE, TWO]
    used = stores.open(TWO, "id")
    assert await later(1) == [TWO]
    used.close()
    assert await later(0) == []
    stores.close()
