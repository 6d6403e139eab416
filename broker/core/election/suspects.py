"""Lives of brokers whose port refused a connection while their registration stands.

A suspicion is a shortcut: a leader that was killed is replaced before its session ends. It may be wrong (one
connection refused by something between the two), so it never lasts by itself: each suspect is probed again
and again, and an answer of its port, or a stream that it opens, ends the suspicion.

A life is unknown, or suspected; legal: unknown → suspected (`refused`), suspected → unknown (`heard`, or its
registration goes, in `registered`).
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
class _Pace:
    """When a suspect is probed next, and how long the pause after that is."""

    due: float
    pause_s: float


class Suspects:
    """The suspects of one broker. At most one for each registration."""

    def __init__(self) -> None:
        self._paces: dict[BrokerEpoch, _Pace] = {}

    def __contains__(self, life: object) -> bool:
        return life in self._paces

    @property
    def lives(self) -> frozenset[BrokerEpoch]:
        return frozenset(self._paces)

    def refused(self, life: BrokerEpoch, now: float) -> bool:
        """Its port is closed; True if that is news."""
        if life in self._paces:
            return False
        self._paces[life] = _Pace(now + PROBE_AGAIN_S, PROBE_AGAIN_S)
        return True

    def heard(self, life: BrokerEpoch) -> bool:
        """It said something; True if it was suspected."""
        return self._paces.pop(life, None) is not None

    def registered(self, lives: Collection[BrokerEpoch]) -> None:
        """All lives that are registered now; the others are gone, which is more than a suspicion."""
        for life in self._paces.keys() - set(lives):
            del self._paces[life]

    def clear(self) -> None:
        """Begin anew, in another session."""
        self._paces.clear()

    def due(self, now: float) -> list[BrokerEpoch]:
        """The lives to probe now; each counts as probed by this."""
        found = [life for life, pace in self._paces.items() if pace.due <= now]
        for life in found:
            pause_s = min(2 * self._paces[life].pause_s, PROBE_AGAIN_S_MAX)
            self._paces[life] = _Pace(now + pause_s, pause_s)
        return found

    def next_due(self) -> float | None:
        return min((pace.due for pace in self._paces.values()), default=None)
