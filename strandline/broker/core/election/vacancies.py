"""The vacancies that a broker knows, and when it examines each.

A partition without a leader, as far as this broker knows, is a vacancy. Legal transitions: unknown → due
(`notice`), due → looked at (`look`), looked at → unknown (`settle`), looked at → due (`notice`, `later`,
`again`, `has_turn`, `lost`), due → due (all of these, with another time), due → unknown (`drop`), looked at →
unknown (`drop`). `settle` changes nothing about a vacancy that was noticed again while it was looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from strandline.broker.core.election.election import wait_s
from strandline.ids import PartitionKey

Replica = TypeVar("Replica")
"""The driver's replica of a partition."""

LOST_STEP_PARTS: Final = 10
"""An election that was lost is examined again after this part of a rank's step: by then another broker
leads."""


@dataclass(slots=True)
class Vacancy(Generic[Replica]):
    """One vacancy. Only `Vacancies` changes it."""

    key: PartitionKey
    replica: Replica
    noticed: float
    """The waits of the ranks count from here."""
    due: float | None
    """When it is examined; None while it is looked at, unless it is to be examined again after that."""
    handed_over: bool
    """True if its last leader named this broker."""


class Vacancies(Generic[Replica]):
    """The vacancies of one broker, at most one for each partition. `step_s`: the wait of one rank."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._of: dict[PartitionKey, Vacancy[Replica]] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._of

    def __len__(self) -> int:
        return len(self._of)

    def notice(self, key: PartitionKey, replica: Replica, now: float, *, handed_over: bool = False) -> None:
        """The partition has no leader: it is due. The waits of the ranks count from the first notice."""
        vacancy = self._of.get(key)
        if vacancy is None:
            self._of[key] = Vacancy(key, replica, now, now, handed_over)
        else:
            vacancy.due = now
            vacancy.handed_over = vacancy.handed_over or handed_over

    def due(self, now: float) -> list[Vacancy[Replica]]:
        """Those to be examined now."""
        return [each for each in self._of.values() if each.due is not None and each.due <= now]

    def next_due(self) -> float | None:
        """When the next one is due; None: not before the next notice."""
        return min((each.due for each in self._of.values() if each.due is not None), default=None)

    # --- one of them, while it is looked at --------------------------------------------------

    def look(self, vacancy: Vacancy[Replica]) -> None:
        """Its examination begins. A notice from now on makes it due again after that."""
        vacancy.due = None

    def settle(self, vacancy: Vacancy[Replica]) -> None:
        """Ends the vacancy, unless it was noticed again meanwhile."""
        if vacancy.due is None:
            self._of.pop(vacancy.key, None)

    def drop(self, key: PartitionKey) -> None:
        """Forgets the vacancy in any case: the partition is gone, or another replica of it is here."""
        self._of.pop(key, None)

    def later(self, vacancies: Iterable[Vacancy[Replica]], now: float) -> None:
        """Examines these again after one step: something could not be read or written, or is not certain."""
        for vacancy in vacancies:
            vacancy.due = now + self._step_s

    def again(self, vacancy: Vacancy[Replica], now: float) -> None:
        """Examines it again at once: this broker changed what it is decided by."""
        vacancy.due = now

    def lost(self, vacancy: Vacancy[Replica], now: float) -> None:
        """A claim failed: another broker was faster, or the outcome is unknown. The waits count anew, and the
        vacancy is examined soon."""
        vacancy.noticed = now
        vacancy.due = now + self._step_s / LOST_STEP_PARTS

    def has_turn(self, vacancy: Vacancy[Replica], rank: int, now: float) -> bool:
        """True if it is this rank's turn. Otherwise the vacancy is due then."""
        moment = vacancy.noticed + wait_s(rank, self._step_s, len(self._of))
        if moment <= now:
            return True
        vacancy.due = moment if vacancy.due is None else min(vacancy.due, moment)
        return False
