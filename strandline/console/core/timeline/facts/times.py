"""The time at which an event is shown. Clocks of brokers and members may be wrong."""

from __future__ import annotations

from typing import Final

AHEAD_MS_MAX: Final = 60_000
"""An event cannot have happened later than its record was written, but for the difference of two clocks."""
BEHIND_MS_MAX: Final = 7 * 24 * 3600 * 1000
"""A broker that was down records what it did before, but not after longer than a topic keeps records."""


def shown_ms(at_ms: int, written_ms: int, now_ms: int, behind_ms_max: int = BEHIND_MS_MAX) -> int:
    """The time of an event that says `at_ms`, in a record written at `written_ms`: that of the record
    if the event's cannot be right, and never one that is far in the future."""
    written_ms = min(written_ms, now_ms + AHEAD_MS_MAX)
    if not written_ms - behind_ms_max <= at_ms <= written_ms + AHEAD_MS_MAX:
        at_ms = written_ms
    return max(0, min(at_ms, now_ms + AHEAD_MS_MAX))
