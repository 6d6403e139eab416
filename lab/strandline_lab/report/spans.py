"""Periods of time. Pure; times are milliseconds since one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strandline.ids import TopicPartition

NOBODY: Final = -1


@dataclass(frozen=True, slots=True)
class Span:
    """The time from `from_ms` to `until_ms`."""

    from_ms: float
    to_ms: float

    @property
    def took_ms(self) -> float:
        return self.to_ms - self.from_ms

    def meets(self, other: Span) -> bool:
        """True if the two have a moment in common. A span without length has one moment."""
        return self.from_ms <= other.to_ms and other.from_ms <= self.to_ms


@dataclass(frozen=True, slots=True)
class Held(Span):
    """The time for which a broker led a partition or was in its ISR. NOBODY: there was no leader."""

    place: TopicPartition
    broker: int
