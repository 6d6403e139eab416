"""The settings of a controller."""

from __future__ import annotations

from pydantic import Field

from strandline.config.limits import KIB, MULTI_BYTES_MAX, STATE_QUEUE_ENTRIES_MAX
from strandline.config.services.listener import ListenerSettings


class ControllerSettings(ListenerSettings):
    """One controller."""

    controller_id: int = Field(default=0, ge=0)
    reconcile_ms: int = Field(default=5_000, ge=50)
    """How often the active controller confirms that it is still active, and resumes unfinished deletions."""
    standby_poll_ms: int = Field(default=250, ge=10)
    """How often a standby controller checks whether there is an active one."""
    reassignments_in_flight_max: int = Field(default=20, ge=1)
    """Partitions that drains and a balance move at the same time."""
    reassignment_timeout_ms: int = Field(default=3_600_000, ge=0)
    """A reassignment that is not complete after this time is overdue, unless its request gives another time.
    0: none is."""
    mend_after_ms: int = Field(default=10_000, ge=50)
    """A fault that lasts this long, and that no other component is repairing, is repaired by the
    reconcile loop."""
    queue_coalesce_requests: int = Field(default=1_000, ge=1)
    """If a dead broker's queue has at least this number of requests, it is searched for superseded ones."""
    multi_bytes_max: int = Field(default=MULTI_BYTES_MAX, ge=72 * KIB, le=MULTI_BYTES_MAX)
    """Bytes of paths and data in one ZooKeeper transaction. A topic that needs more is written in parts."""
    queue_merge_znodes: int = Field(default=STATE_QUEUE_ENTRIES_MAX // 2, ge=2, le=STATE_QUEUE_ENTRIES_MAX)
    """If a dead broker's queue has at least this number of znodes, they are merged into fewer."""
    events_waiting_max: int = Field(default=20_000, ge=1)
    """Events that wait to be written to an internal topic; beyond it the oldest are dropped and counted."""
    state_change_streams_max: int = Field(default=32, ge=1)
    """Concurrent StateChanges calls."""
    crash_points: str = ""
