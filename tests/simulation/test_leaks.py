"""A closed world leaves nothing: thousands of seeds run in one process."""

from __future__ import annotations

import gc
import logging
from collections import Counter

import pytest

from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline.simulation.engine.loop import Process, SimulatedLoop
from strandline.simulation.engine.world import World
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.run import run

SECONDS = 1.0
SEEDS = range(3, 5)
"""Each runs twice: the first runs fill caches, such as those of imports and of abstract classes."""
GROWTH_MAX = 20
"""Objects a seed that caches may still keep. A cluster has thousands."""


def alive() -> Counter[type]:
    isr_znodes.load_isr.cache_clear()
    gc.collect()
    return Counter(type(each) for each in gc.get_objects())


def test_nothing_of_a_world_stays_once_it_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    """Nor does asyncio complain of tasks that were destroyed, or of exceptions that were never retrieved."""
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("strandline")]:
        caplog.set_level(logging.CRITICAL + 1, logger=name)  # a captured record keeps its traceback
    with caplog.at_level(logging.WARNING, logger="asyncio"):
        for seed in SEEDS:
            run(Plan.drawn(seed, SECONDS))
        before = alive()
        for seed in SEEDS:
            assert run(Plan.drawn(seed, SECONDS)).counts
        after = alive()
    assert [record for record in caplog.records if record.name == "asyncio"] == []
    parts = (World, SimulatedLoop, Process, SimulatedProcess)
    assert {part: after[part] for part in parts if after[part] > before[part]} == {}
    grown = after - before
    assert grown.total() <= GROWTH_MAX * len(SEEDS), grown.most_common(10)
