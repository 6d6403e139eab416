"""The time by which retention deletes: the wall clock, slowed down to at most twice the pace of real time.

A wall clock that jumps years ahead must not make retention delete everything at its next pass. So retention's
time follows the wall clock, but never runs more than twice as fast as the monotonic clock. If the wall clock
is ahead, after a jump or because the broker was down, retention's time catches up within as much time again:
a clock that is wrong for an hour deletes an hour's data too early. When the wall clock goes back, retention's
time follows at once, which only keeps records longer.
"""

from __future__ import annotations

from typing import Final

PACE_MAX: Final = 2
"""The factor by which it may run faster than real time while it catches up with the wall clock."""


class RetentionTime:
    """Milliseconds since the Unix epoch; never later than the wall clock."""

    __slots__ = ("_at_s", "_ms")

    def __init__(self, known_ms: int | None, *, wall_ms: int, monotonic_s: float) -> None:
        """`known_ms`: the last known value, perhaps from an earlier process; None if there is none."""
        self._ms: float = wall_ms if known_ms is None else min(known_ms, wall_ms)
        self._at_s = monotonic_s

    def now_ms(self, *, wall_ms: int, monotonic_s: float) -> int:
        """The time to delete by."""
        passed_ms = max(0.0, monotonic_s - self._at_s) * 1000
        self._at_s = monotonic_s
        self._ms = min(wall_ms, self._ms + passed_ms * PACE_MAX)
        return int(self._ms)

    def lead_ms(self, wall_ms: int) -> int:
        """The milliseconds by which the wall clock is ahead of retention's time."""
        return wall_ms - int(self._ms)
