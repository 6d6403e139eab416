"""What a run asks of a judge, and what a judge says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple


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
