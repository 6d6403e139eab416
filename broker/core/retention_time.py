"""The time by which retention deletes: the wall clock's, which may jump, held to the pace of real time.

A wall clock that jumps years ahead must not delete everything at the next look. So retention's time follows
the wall clock, but never runs more than twice as fast as the monotonic clock. A lead that the wall clock has
by a jump, or by the time for which the broker was down, is caught up within as much time again: a clock that
is wrong for an hour deletes an hour's data too early. Back it goes with the wall clock at once, which only
keeps things longer.
"""

from __future__ import annotations

from typing import Final

PACE_MAX: Final = 2
"""How much faster than real time it runs at most, to catch up with the wall clock."""


class RetentionTime:
    """Milliseconds since the Unix epoch; not after the wall clock's."""

    __slots__ = ("_at_s", "_ms")

    def __init__(self, known_ms: int | None, *, wall_ms: int, monotonic_s: float) -> None:
        """`known_ms`: as it was told last, perhaps by an earlier process; None if it never was."""
        self._ms: float = wall_ms if known_ms is None else min(known_ms, wall_ms)
        self._at_s = monotonic_s

    def now_ms(self, *, wall_ms: int, monotonic_s: float) -> int:
        """The time to delete by."""
        passed_ms = max(0.0, monotonic_s - self._at_s) * 1000
        self._at_s = monotonic_s
        self._ms = min(wall_ms, self._ms + passed_ms * PACE_MAX)
        return int(self._ms)

    def lead_ms(self, wall_ms: int) -> int:
        """How far the wall clock is ahead of it."""
        return wall_ms - int(self._ms)
