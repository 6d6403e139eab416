"""Moments as people read them."""

from __future__ import annotations

from datetime import date, datetime


def time_of(at_ms: int, today: date) -> str:
    """The time by this machine's clock and zone; without the day if that is today."""
    try:
        at = datetime.fromtimestamp(at_ms / 1000)
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"  # the clock of a broker or a member may be arbitrarily wrong
    if at.date() == today:
        return at.time().isoformat(timespec="milliseconds")
    return at.isoformat(" ", timespec="milliseconds")
