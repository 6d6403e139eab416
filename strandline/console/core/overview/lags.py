"""Whether the lag of a group grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strandline.console.core.groups.lag import Sample

RISES_MIN: Final = 3
"""Samples in a row that are above the one before; fewer are a burst of records."""
RISES_MS_MIN: Final = 60_000
"""The time that they cover."""


def rising_since(samples: Sequence[Sample]) -> Sample | None:
    """The last sample before the lag began to grow without a break; None unless it grows now, for long enough
    to be more than a burst."""
    if not samples:
        return None
    first = len(samples) - 1
    while first > 0 and _rises(samples[first - 1], samples[first]):
        first -= 1
    rises, took_ms = len(samples) - 1 - first, samples[-1].at_ms - samples[first].at_ms
    return samples[first] if rises >= RISES_MIN and took_ms >= RISES_MS_MIN else None


def _rises(before: Sample, after: Sample) -> bool:
    return (
        before.lag is not None
        and after.lag is not None
        and before.partitions == after.partitions
        and after.lag > before.lag
    )
