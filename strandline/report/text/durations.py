"""Durations as people read them."""

from __future__ import annotations


def age(age_ms: int | None) -> str | None:
    """A duration with its two largest units."""
    if age_ms is None:
        return None
    minutes, seconds = divmod(age_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{age_ms / 1000:.1f} s"
