"""What a run asks of a workload."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from strandline.adapters.zookeeper.requests.merged import OPERATIONS_MERGED_MAX
from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.stage import Stage


class Workload(ABC):
    """Clients of one kind, from their first request to the judgement of what they saw."""

    @abstractmethod
    async def prepare(self) -> None:
        """Create what the clients need. No fault is done meanwhile."""

    @abstractmethod
    async def run(self) -> None:
        """Work until `Stage.faults_ended`; then return once nothing is under way."""

    async def begun(self) -> None:
        """Called while `run` works: return once the faults may begin."""
        return

    @abstractmethod
    async def finish(self) -> None:
        """After the faults: wait for the clients, and read what `problems` needs."""

    @abstractmethod
    def problems(self) -> list[Problem]:
        """What was wrong. Called once, after `finish`."""

    def counts(self) -> dict[str, int]:
        """How much was done, by a short name."""
        return {}


Count = Annotated[int, Field(ge=1, le=100)]
"""Of clients, partitions or topics."""
Pause = Annotated[float, Field(gt=0, le=3600)]
"""Seconds, on average."""


BROKERS_MIN: Final = 3
"""Topics have three replicas."""


class WorkloadPlan(BaseModel, ABC, frozen=True, extra="forbid"):
    """A workload as a value. Each subclass has a field `kind` with a name of its own."""

    name: str
    """Begins the names of its clients, topics and groups: no two of a plan have the same."""

    @property
    @abstractmethod
    def survives_power_loss(self) -> bool:
        """It judges a run right in which machines lose their power: no record may be lost, because each is
        synced before it is acknowledged, or it knows which loss is by design."""

    @property
    def has_group(self) -> bool:
        """Its clients are members of a group: faults of coordinators concern it."""
        return False

    @property
    def brokers_min(self) -> int:
        """How many brokers it needs."""
        return BROKERS_MIN

    @property
    def broker_settings(self) -> dict[str, Any]:
        """Settings of all brokers that it needs."""
        return {}

    @property
    def controller_settings(self) -> dict[str, Any]:
        """Settings of all controllers that it needs."""
        return {}

    @property
    def operations_merged_max(self) -> int:
        """How many operations of several callers a process may send to ZooKeeper as one `multi`."""
        return OPERATIONS_MERGED_MAX

    @abstractmethod
    def workload(self, stage: Stage) -> Workload:
        """The workload that this value plans."""


async def joined(task: asyncio.Task[Any]) -> None:
    """Wait for a task of another process, which is not killed."""
    await task
