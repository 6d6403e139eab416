"""The vacancies that a broker knows, and when it examines each.

A partition without a leader, as far as this broker knows, is a vacancy. Legal transitions: unknown → due
(`notice`), due → looked at (`look`), looked at → unknown (`settle`), looked at → due (`notice`, `later`,
`again`, `has_turn`, `lost`), due → due (all of these, with another time), due → unknown (`drop`), looked at →
unknown (`drop`). `settle` changes nothing about a vacancy that was noticed again while it was looked at.

They are examined in lots. A busy partition, one that had records or whose clients asked for it lately, comes
before all idle ones: thousands of idle partitions take seconds, and no client waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from strandline.broker.core.election.election import wait_s
from strandline.broker.core.election.traffic import BUSY_FIRST_S, LOT_MAX, is_busy
from strandline.ids import PartitionKey

Replica = TypeVar("Replica")
"""The driver's replica of a partition."""

LOST_STEP_PARTS: Final = 10
"""An election that was lost is examined again after this part of a rank's step: by then another broker
leads."""

BUSY_S_MAX: Final = 10.0
"""No vacancy comes before idle ones for longer than this, so that these have their turn."""
BUSY_LOT_MAX: Final = 50


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
    rank: int
    """The rank that this broker expects to have. The examination finds the real one."""


class Vacancies(Generic[Replica]):
    """The vacancies of one broker, at most one for each partition.

    `step_s`: the wait of one rank. `traffic_at`: when a replica last had traffic, as `notice` counts time;
    -inf: never.
    """

    def __init__(self, step_s: float, traffic_at: Callable[[Replica], float]) -> None:
        self._step_s = step_s
        self._traffic_at = traffic_at
        self._of: dict[PartitionKey, Vacancy[Replica]] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._of

    def __len__(self) -> int:
        return len(self._of)

    def notice(
        self, key: PartitionKey, replica: Replica, now: float, *, handed_over: bool = False, rank: int = 0
    ) -> None:
        """The partition has no leader: it is due. The waits of the ranks count from the first notice. `rank`:
        the one that this broker expects to have."""
        vacancy = self._of.get(key)
        if vacancy is None:
            self._of[key] = Vacancy(key, replica, now, now, handed_over, rank)
        else:
            vacancy.due, vacancy.rank = now, rank
            vacancy.handed_over = vacancy.handed_over or handed_over

    def lot(self, now: float) -> list[Vacancy[Replica]]:
        """Those to be examined now, together: busy ones alone, those with the latest traffic first; or idle
        ones, if no busy one is due or has to be waited for. Of the idle ones, those come first that this
        broker expects to win: the others mostly have a leader by the time they are examined."""
        busy = self._busy(now)
        due = [each for each in self._of.values() if each.due is not None and each.due <= now]
        if first := [each for each in due if each.key in busy]:
            first.sort(key=lambda each: self._traffic_at(each.replica), reverse=True)
            return first[:BUSY_LOT_MAX]
        idle = [each for each in due if not busy or _free_at(each) <= now]
        idle.sort(key=lambda each: each.rank)
        return idle[:LOT_MAX]

    def next_due(self, now: float) -> float | None:
        """When there is another lot, unless a notice comes before; None: not before the next notice."""
        busy = self._busy(now)
        moments = [
            max(each.due, _free_at(each)) if busy and each.key not in busy else each.due
            for each in self._of.values()
            if each.due is not None
        ]
        return min(moments, default=None)

    def _busy(self, now: float) -> Set[PartitionKey]:
        return {key for key, each in self._of.items() if self._is_busy(each, now)}

    def _is_busy(self, vacancy: Vacancy[Replica], now: float) -> bool:
        traffic_at = self._traffic_at(vacancy.replica)
        return is_busy(traffic_at, vacancy.noticed) and now - vacancy.noticed < BUSY_S_MAX

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
        """True if it is this rank's turn. Otherwise the vacancy is due then. The replicas of the ranks before
        it examine busy vacancies first: a busy one waits for those alone."""
        before = len(self._of)
        known = self._of.get(vacancy.key)
        if rank > 0 and known is not None and self._is_busy(known, now):
            before = len(self._busy(now))
        moment = vacancy.noticed + wait_s(rank, self._step_s, before)
        if moment <= now:
            return True
        vacancy.due = moment if vacancy.due is None else min(vacancy.due, moment)
        return False


def _free_at(idle: Vacancy[Replica]) -> float:
    """When it no longer waits for busy ones."""
    return idle.noticed + BUSY_FIRST_S
