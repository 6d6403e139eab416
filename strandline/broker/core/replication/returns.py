"""When a member that left the ISR may return: at once the first time, later and later if it leaves again.

A follower that answers for a moment and hangs again is removed and taken back each time. Each time costs two
writes to ZooKeeper, and producers wait until it is removed. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strandline.ids import BrokerEpoch, BrokerId
from strandline.vocabulary.metadata import IsrMember

PAUSE_S: Final = 1.0
"""A member that leaves a second time waits this long; after each further time it waits twice as long."""
PAUSE_S_MAX: Final = 10.0
CALM_S: Final = 60.0
"""A member that was in the ISR for this long is new to it: its next absence counts as the first."""


@dataclass(slots=True)
class _Absences:
    """Those of one life of a follower."""

    life: BrokerEpoch
    until: float
    """It may not return before."""
    pause_s: float = 0.0
    returned_at: float | None = None
    """None while it is out."""


class Returns:
    """The members that left the ISR of one leader, which lives as long as its epoch."""

    def __init__(self) -> None:
        self._absences: dict[BrokerId, _Absences] = {}

    def left(self, member: IsrMember, now: float) -> None:
        """It leaves the ISR. Repeated while it is out, this changes nothing."""
        last = self._absences.get(member.broker)
        if last is None or last.life != member.broker_epoch or self._is_calm(last, now):
            self._absences[member.broker] = _Absences(member.broker_epoch, now)
        elif last.returned_at is not None:
            last.pause_s = min(2 * last.pause_s or PAUSE_S, PAUSE_S_MAX)
            last.until, last.returned_at = now + last.pause_s, None

    def returned(self, member: IsrMember, now: float) -> None:
        """It joins the ISR."""
        last = self._absences.get(member.broker)
        if last is not None:
            last.returned_at = now

    def earliest(self, broker: BrokerId, life: BrokerEpoch | None) -> float:
        """When this life of a broker may return at the earliest."""
        last = self._absences.get(broker)
        return float("-inf") if last is None or last.life != life else last.until

    @staticmethod
    def _is_calm(last: _Absences, now: float) -> bool:
        return last.returned_at is not None and now - last.returned_at >= CALM_S
