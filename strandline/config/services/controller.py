"""The settings of a controller."""

from __future__ import annotations

from pydantic import Field

from strandline.config.services.constants import ControllerConstants
from strandline.config.services.groups import ConsumerGroupSettings
from strandline.config.services.listener import ListenerSettings


class ControllerSettings(ControllerConstants, ConsumerGroupSettings, ListenerSettings):
    """One controller."""

    controller_id: int = Field(default=0, ge=0)
    reconcile_ms: int = Field(default=5_000, ge=50)
    """How often the active controller confirms that it is still active, and resumes unfinished deletions."""
    reassignments_in_flight_max: int = Field(default=20, ge=1)
    """Partitions that drains and a balance move at the same time."""
    reassignment_timeout_ms: int = Field(default=3_600_000, ge=0)
    """A reassignment that is not complete after this time is overdue, unless its request gives another time.
    0: none is."""
