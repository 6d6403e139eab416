"""What the plans of unsteady topics have in common."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from strandline.simulation.cluster import KAFKA_PORT
from strandline_lab.simulation.workloads.unsteady import readers
from strandline_lab.simulation.workloads.workload import Pause


class UnsteadyPlan(BaseModel, frozen=True):
    """The clients of a topic that is not one log all the time."""

    writers: tuple[str, ...]
    readers: Annotated[tuple[readers.Kind, ...], Field(min_length=1)]
    """Consumers by themselves, by assignment with a group that keeps offsets, members, and Kafka's."""
    pause_s: Pause
    """Between two sends of a writer, on average."""
    change_s: Pause
    """Between two changes of the clients of groups, on average: they leave, are killed and are paused."""
    synced: bool
    """Each record and each committed offset is synced before it is acknowledged."""
    by_hand: bool
    """Clients of groups commit themselves."""
    protocol: Literal["eager", "cooperative"]
    """Of the members."""

    @property
    def has_group(self) -> bool:
        return any(kind in readers.IN_GROUPS for kind in self.readers)

    @property
    def survives_power_loss(self) -> bool:
        return self.synced

    @property
    def broker_settings(self) -> dict[str, Any]:
        kafka = any("kafka" in kind for kind in (*self.writers, *self.readers))
        return {"kafka_port": KAFKA_PORT} if kafka else {}
