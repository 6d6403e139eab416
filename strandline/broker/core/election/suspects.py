"""Lives of brokers whose port refused a connection, or that several brokers do not hear, while their
registration stands.

A suspicion is a shortcut: a leader that was killed or hangs is replaced before its session ends. It may be
wrong (a component between the two refused one connection), so it never lasts without new evidence: each
suspect is probed repeatedly, and a sign of life ends the suspicion.

A life is unknown, or suspected for a cause. Legal transitions: unknown → refused (`refused`), unknown →
silent (`silent`), silent → refused (`refused`), refused or silent → unknown (`reached`, or `registered`
without it).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from strandline.ids import BrokerEpoch

PROBE_AGAIN_S: Final = 0.1
"""Between the refusal and the second probe; each further pause is twice as long."""
PROBE_AGAIN_S_MAX: Final = 1.0


class Cause(Enum):
    """Why a life is suspected."""

    REFUSED = "refused"
    """Its port refused a connection: no process listens. An answer from the port refutes that."""
    SILENT = "silent"
    """Enough brokers that should hear it do not. Only a message of it refutes that: the port of a process
    that hangs may answer."""


@dataclass(slots=True)
class Repeated:
    """When a broker is asked next, and how long the pause after that is."""

    due: float
    _pause_s: float = field(default=PROBE_AGAIN_S, init=False)

    def again(self, now: float) -> None:
        """Sets the next time. Each pause is twice as long as the one before it, up to a bound."""
        self.due = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, PROBE_AGAIN_S_MAX)


@dataclass(slots=True)
class _Suspicion(Repeated):
    """Why a life is suspected, and when it is probed."""

    cause: Cause


class Suspects:
    """The suspects of one broker. At most one for each registration."""

    def __init__(self) -> None:
        self._of: dict[BrokerEpoch, _Suspicion] = {}
        self.begun: Counter[Cause] = Counter()
        """How many suspicions began in this process, by cause."""
        self.wrong: Counter[Cause] = Counter()
        """How many of them a sign of life ended, by cause."""

    def __contains__(self, life: object) -> bool:
        return life in self._of

    @property
    def lives(self) -> frozenset[BrokerEpoch]:
        return frozenset(self._of)

    def cause(self, life: BrokerEpoch) -> Cause | None:
        """Why it is suspected; None if it is not."""
        suspicion = self._of.get(life)
        return None if suspicion is None else suspicion.cause

    def refused(self, life: BrokerEpoch, now: float) -> bool:
        """Its port is closed; True if it was not suspected before."""
        if (known := self._of.get(life)) is not None:
            known.cause = Cause.REFUSED
            return False
        return self._begin(life, Cause.REFUSED, now)

    def silent(self, life: BrokerEpoch, now: float) -> bool:
        """Enough brokers do not hear it; True if it was not suspected before."""
        return life not in self._of and self._begin(life, Cause.SILENT, now)

    def _begin(self, life: BrokerEpoch, cause: Cause, now: float) -> bool:
        self._of[life] = _Suspicion(now, cause)
        self._of[life].again(now)
        self.begun[cause] += 1
        return True

    def reached(self, life: BrokerEpoch) -> Cause | None:
        """It gave a sign of life. Returns why it was suspected; None if it was not."""
        suspicion = self._of.pop(life, None)
        if suspicion is None:
            return None
        self.wrong[suspicion.cause] += 1
        return suspicion.cause

    def registered(self, lives: Collection[BrokerEpoch]) -> None:
        """All lives that are registered now. The others are gone for certain: they are no longer suspects."""
        for life in self._of.keys() - set(lives):
            del self._of[life]

    def clear(self) -> None:
        """Forget every suspicion, for a new session."""
        self._of.clear()

    def due(self, now: float) -> list[BrokerEpoch]:
        """The lives to probe now; returning them schedules their next probes."""
        found = [life for life, suspicion in self._of.items() if suspicion.due <= now]
        for life in found:
            self._of[life].again(now)
        return found

    def next_due(self) -> float | None:
        return min((suspicion.due for suspicion in self._of.values()), default=None)
