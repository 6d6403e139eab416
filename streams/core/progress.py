"""How fast something goes of late, and how long the rest takes at that pace. Always a finite number."""

from __future__ import annotations

from math import exp, expm1
from typing import Final

OVER_S: Final = 5.0
"""What is older than this counts for little: e⁻¹ of what it did."""
ELAPSED_S_MIN: Final = 0.001
"""What was counted in less time than this is taken to have needed it."""
REMAINING_S_MAX: Final = 30 * 24 * 3600.0
"""Who would take longer than this is as good as standing still: there is no estimate."""


class Rate:
    """So many a second, smoothed exponentially. Times are monotonic seconds; one that goes back is as now.

    Early on, while less time has passed than is smoothed over, it is the mean since the beginning.
    """

    def __init__(self, now: float, *, over_s: float = OVER_S) -> None:
        self._began = now
        self._at = now
        self._over_s = over_s
        self._weighed = 0.0
        """What was counted, each of it by e to the minus its age in `over_s`."""

    def count(self, amount: int, now: float) -> None:
        """So many more."""
        self._age_to(now)
        self._weighed += amount

    def per_s(self, now: float) -> float:
        """The rate of late: 0 at the very beginning, and falling towards it while nothing is counted."""
        self._age_to(now)
        elapsed_s = max(self._at - self._began, ELAPSED_S_MIN)
        return self._weighed / (self._over_s * -expm1(-elapsed_s / self._over_s))

    def _age_to(self, now: float) -> None:
        if now > self._at:
            self._weighed *= exp((self._at - now) / self._over_s)
            self._at = now


def remaining_s(left: int, per_s: float) -> float | None:
    """Seconds until nothing is left at this rate: 0 if nothing is, None if it would take for ever."""
    if left <= 0:
        return 0.0
    return left / per_s if per_s * REMAINING_S_MAX > left else None
