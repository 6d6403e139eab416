"""What a run asks of a judge, and what a judge says."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from strandline_lab.simulation.stage import Stage

LOOK_S: Final = 0.5
"""Between two looks at what the cluster still has to do."""


class Problem(NamedTuple):
    """Something that must not happen has happened."""

    check: str
    """Which rule is broken, in a word: a shrunk plan must break the same one."""
    sentence: str


class Judge(ABC):
    """Watches the cluster during a run, or looks at it afterwards."""

    def start(self) -> None:  # noqa: B027 - some judges only look afterwards
        """Begin to watch. The topics of the workloads exist."""

    async def finish(self) -> None:  # noqa: B027 - some judges only watch
        """All faults are healed and all clients have finished: look at what the cluster holds."""

    @abstractmethod
    def problems(self) -> list[Problem]:
        """What was wrong. Called once, at the end, and also if the run did not heal."""


async def left_after(stage: Stage, seconds: float, found: Callable[[], Iterable[str]]) -> list[str]:
    """Looks until nothing is found, for these seconds. Returns what is found then."""
    ends_s = stage.now_s + seconds
    left = list(found())
    while left and stage.now_s < ends_s:
        await asyncio.sleep(LOOK_S)
        left = list(found())
    return left
