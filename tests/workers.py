"""How a run shares its tests between its workers: what stays together, and what begins first.

Files stay together, for their tests may share a cluster, and so do all files that share the one Spark. Where
the time limits are long, the tests are: those files begin first. Else a worker that gets one of them as its
last would run long after the others have ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final
from zlib import crc32

import pytest
from xdist.scheduler import LoadFileScheduling

SPARK: Final = "spark"
SPARK_PATHS: Final = ("tests/integration/pipeline/", "tests/pipeline/jobs/", "tests/pipeline/test_session.py")
"""Where tests have the fixture `spark`."""
OWN_SPARK: Final = "tests/integration/pipeline/test_elsewhere.py"
"""Its Spark is in other processes."""
QUICK_S: Final = 1.0
"""What a test counts for that has no time limit of its own and is not slow."""


def scope_of(nodeid: str) -> str:
    """The unit to which a test belongs: one worker runs all of it."""
    path = nodeid.partition("::")[0]
    return SPARK if path.startswith(SPARK_PATHS) and path != OWN_SPARK else path


def in_share(nodeid: str, share: str) -> bool:
    """Whether a test belongs to a share of all, such as `0/2`: the first of two. Each unit is in one of them,
    the same in every run."""
    number, count = map(int, share.split("/"))
    return crc32(scope_of(nodeid).encode()) % count == number


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist ships no types
    """Gives a worker one unit after the other, in the order in which the workers collected them."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False  # by the number of tests, else
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def longest_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests in their `order`. Raises pytest.UsageError if one of them would start another Spark."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and scope_of(item.nodeid) != SPARK:
            raise pytest.UsageError(f"{item.nodeid} has the fixture `spark`: add its path to SPARK_PATHS")
    return [items[number] for number in order([(item.nodeid, _limit_s(item)) for item in items])]


def order(tests: Sequence[tuple[str, float]]) -> list[int]:
    """The places of tests, each with its time limit: unit by unit, those with the longest limits in total
    first. The tests of a unit keep their order."""
    units = [scope_of(nodeid) for nodeid, _ in tests]
    limits: defaultdict[str, float] = defaultdict(float)
    for unit, (_, limit_s) in zip(units, tests, strict=True):
        limits[unit] += limit_s
    return sorted(range(len(tests)), key=lambda place: (-limits[units[place]], units[place]))


def _limit_s(item: pytest.Item) -> float:
    if (own := item.get_closest_marker("timeout")) is not None:
        return float(own.args[0])
    is_long = item.get_closest_marker("slow") is not None or item.name == "runTest"  # a state machine's
    return float(item.config.getini("timeout")) if is_long else QUICK_S
