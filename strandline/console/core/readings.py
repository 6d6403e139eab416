"""When to read the state of the cluster: topics that have changed soon, all of them now and then. Pure.

A broker reads thousands of znodes for the metadata of all topics of a large cluster: a second of its time. So
readings of everything have a share of the time, and state changes say which topics to read between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

SETTLE_S: Final = 0.1
"""The pause after a change: several come together."""
AGAIN_S: Final = 0.5
"""The shortest pause between two readings of topics that have changed."""
YOUNG_S: Final = 6.0
"""How long a topic is read again after its change: a broker may answer with what it has known for 5 s."""
TOPICS_MAX: Final = 100
"""If more have changed, all are read."""
SHARE_MAX: Final = 0.05
"""The share of time that readings of all topics take."""
SHARE_BUSY_MAX: Final = 0.2
"""The same while more than TOPICS_MAX change."""
WHOLE_S_MAX: Final = 30.0
"""The longest time between two readings of all topics."""
NEVER: Final = float("-inf")


class Reading(NamedTuple):
    """What to read in `in_s` seconds: all topics, or those that have changed, none maybe."""

    in_s: float
    whole: bool
    topics: tuple[str, ...] = ()


class Readings:
    """The times of readings, one every `refresh_s` at least: each has the brokers that are alive. Times are
    seconds of a clock that never goes back."""

    def __init__(self, refresh_s: float) -> None:
        self._refresh_s = refresh_s
        self._whole_s = self._busy_s = self._some_s = NEVER
        self._changed: dict[str, float] = {}
        """Until when each topic is young."""
        self._many_until_s = self._changed_s = NEVER

    def changed(self, topics: Iterable[str], now_s: float) -> None:
        """Notes that these topics have changed."""
        self._changed.update(dict.fromkeys(topics, now_s + YOUNG_S))
        if len(self._changed) > TOPICS_MAX:
            self._changed.clear()
            self._many_until_s = now_s + YOUNG_S
        self._changed_s = now_s
        self._some_s = min(self._some_s, now_s + SETTLE_S)

    def next(self, now_s: float) -> Reading:
        """The next reading, as far as it is known now."""
        whole_s = self._whole_s
        if self._many_until_s > now_s:
            whole_s = min(whole_s, max(self._busy_s, self._some_s))
        if whole_s <= max(now_s, self._some_s):
            return Reading(max(0.0, whole_s - now_s), True)
        return Reading(max(0.0, self._some_s - now_s), False, tuple(self._changed))

    def was_read(self, began_s: float, now_s: float, *, whole: bool, failed: bool) -> None:
        """Notes that a reading has ended now."""
        took_s = now_s - began_s
        if whole:
            pause_s = min(max(self._refresh_s, took_s / SHARE_MAX), WHOLE_S_MAX)
            self._whole_s = now_s + (self._refresh_s if failed else pause_s)
            self._busy_s = now_s + max(AGAIN_S, took_s / SHARE_BUSY_MAX)
        self._changed = {name: until_s for name, until_s in self._changed.items() if until_s > began_s}
        pause_s = self._refresh_s
        if self._changed:
            pause_s = min(pause_s, max(AGAIN_S, took_s / SHARE_MAX))
        if self._changed_s >= began_s:
            pause_s = SETTLE_S  # the reading may have missed it
        self._some_s = now_s + pause_s
