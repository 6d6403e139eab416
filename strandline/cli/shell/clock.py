"""The time of this machine, for what commands print and issue."""

from __future__ import annotations

from datetime import datetime, tzinfo


def now(zone: tzinfo | None = None) -> datetime:
    """In this machine's zone unless another is given."""
    from strandline.adapters.system.clock import SystemClock

    return datetime.fromtimestamp(SystemClock().wall_ms() / 1000, zone)
