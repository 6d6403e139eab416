"""Lives of brokers whose port refused a connection while their registration stands.

A suspicion is a shortcut: a killed leader is replaced before its session ends. It may be wrong (a component
between the two refused one connection), so it never lasts by itself: each suspect is probed repeatedly, and
an answer from its port, or a stream that it opens, ends the suspicion.

A life is unknown or suspected. Legal transitions: unknown → suspected (`refused`), suspected → unknown
(`reached`, or `registered` without it).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from strandline.ids import BrokerEpoch

PROBE_AGAIN_S: Final = 0.1
"""Between the refusal and the second probe; each further pause is twice as long."""
PROBE_AGAIN_S_MAX: Final = 1.0


@dataclass(slots=True)
class _ProbeSchedule:
    """When a suspect is probed next, and how long the pause after that is."""

    due: float
    pause_s: float


class Suspects:
    """The suspects of one broker. At most one for each registration."""

    def __init__(self) -> None:
        self._schedules: dict[BrokerEpoch, _ProbeSchedule] = {}

    def __contains__(self, life: object) -> bool:
        return life in self._schedules

    @property
    def lives(self) -> frozenset[BrokerEpoch]:
        return frozenset(self._schedules)

    def refused(self, life: BrokerEpoch, now: float) -> bool:
        """Its port is closed; True if it was not suspected before."""
        if life in self._schedules:
            return False
        self._schedules[life] = _ProbeSchedule(now + PROBE_AGAIN_S, PROBE_AGAIN_S)
        return True

    def reached(self, life: BrokerEpoch) -> bool:
        """It answered or opened a stream; True if it was suspected."""
        return self._schedules.pop(life, None) is not None

    def registered(self, lives: Collection[BrokerEpoch]) -> None:
        """All lives that are registered now. The others are gone for certain: they are no longer suspects."""
        for life in self._schedules.keys() - set(lives):
            del self._schedules[life]

    def clear(self) -> None:
        """Forget every suspicion, for a new session."""
        self._schedules.clear()

    def due(self, now: float) -> list[BrokerEpoch]:
        """The lives to probe now; returning them schedules their next probes."""
        found = [life for life, schedule in self._schedules.items() if schedule.due <= now]
        for life in found:
            pause_s = min(2 * self._schedules[life].pause_s, PROBE_AGAIN_S_MAX)
            self._schedules[life] = _ProbeSchedule(now + pause_s, pause_s)
        return found

    def next_due(self) -> float | None:
        return min((schedule.due for schedule in self._schedules.values()), default=None)
