"""A smoothed rate, and the remaining time at that rate. Always a finite number."""

from __future__ import annotations

from math import exp, expm1
from typing import Final

OVER_S: Final = 5.0
"""The time constant: older counts have a weight of less than e⁻¹."""
ELAPSED_S_MIN: Final = 0.001
"""A shorter elapsed time is rounded up to this."""
REMAINING_S_MAX: Final = 30 * 24 * 3600.0
"""There is no estimate beyond this time."""


class Rate:
    """An exponentially smoothed rate. Times are monotonic seconds; one that goes back counts as the last one.

    During the first `over_s` seconds it is the mean since the beginning.
    """

    def __init__(self, now: float, *, over_s: float = OVER_S) -> None:
        self._began = now
        self._at = now
        self._over_s = over_s
        self._weighed = 0.0
        """The sum of the counts, each weighted with e to the power of minus its age in `over_s`."""

    def count(self, amount: int, now: float) -> None:
        """Add to the count."""
        self._age_to(now)
        self._weighed += amount

    def per_s(self, now: float) -> float:
        """The current rate: 0 at the very beginning, and falling towards 0 without counts."""
        self._age_to(now)
        elapsed_s = max(self._at - self._began, ELAPSED_S_MIN)
        return self._weighed / (self._over_s * -expm1(-elapsed_s / self._over_s))

    def _age_to(self, now: float) -> None:
        if now > self._at:
            self._weighed *= exp((self._at - now) / self._over_s)
            self._at = now


def remaining_s(left: int, per_s: float) -> float | None:
    """Seconds until nothing is left at this rate; 0 if nothing is left, None beyond REMAINING_S_MAX."""
    if left <= 0:
        return 0.0
    return left / per_s if per_s * REMAINING_S_MAX > left else None
