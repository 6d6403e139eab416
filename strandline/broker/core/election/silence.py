"""Decides when a leader that says nothing is a suspect: by the agreement of those that should hear it, and by
how often it was suspected wrongly before. Pure (CORRECTNESS E19).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from strandline.ids import BrokerEpoch

AGREEING_MIN: Final = 2
"""One broker alone may be cut off itself: with two brokers in a cluster the session decides."""
TRUSTED_S: Final = 5.0
"""After a first wrong suspicion a broker has to be heard again after this time before it may be suspected;
after each further one the time is twice as long."""
TRUSTED_S_MAX: Final = 300.0
FORGIVEN_S: Final = 600.0
"""Without a wrong suspicion in this time, the next one counts as the first."""
_HEARS_IT: Final = float("-inf")
"""The silence that a broker without an answer counts with."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a broker says when it is asked about another one."""

    silent_s: float | None
    """How long it has heard nothing of it; None if there is no stream between the two that would say so."""


def agreed(own_s: float, reports: Sequence[Report | None], silence_s: float, slack_s: float) -> bool:
    """True if a broker that was not heard here for `own_s` is silent to enough others too.

    `reports` are those of all other live brokers; None: no answer. Most of those that should hear it must not
    have heard it, this broker included, and one besides it. A broker without an answer counts as one that
    hears it. `slack_s`: by how much the last messages to two brokers may be apart.
    """
    if own_s < silence_s:
        return False
    answers = [_HEARS_IT if report is None else report.silent_s for report in reports]
    judges = [silent_s for silent_s in answers if silent_s is not None]
    agreeing = 1 + sum(silent_s >= silence_s - slack_s for silent_s in judges)
    return agreeing >= AGREEING_MIN and 2 * agreeing > 1 + len(judges)


@dataclass(slots=True)
class _Pardon:
    """A life that was suspected wrongly."""

    at: float
    pause_s: float


class Trust:
    """The lives that were suspected for their silence and were alive: a bound on how often that happens."""

    def __init__(self) -> None:
        self._pardons: dict[BrokerEpoch, _Pardon] = {}

    def wronged(self, life: BrokerEpoch, now: float) -> None:
        """It was heard again while it was suspected."""
        before = self._pardons.get(life)
        lately = before is not None and now - before.at < FORGIVEN_S
        pause_s = min(2 * before.pause_s, TRUSTED_S_MAX) if before is not None and lately else TRUSTED_S
        self._pardons[life] = _Pardon(now, pause_s)

    def may_suspect(self, life: BrokerEpoch, heard_at: float) -> bool:
        """True if the silence since `heard_at` counts: no wrong suspicion came too shortly before it."""
        pardon = self._pardons.get(life)
        return pardon is None or heard_at >= pardon.at + pardon.pause_s

    def registered(self, lives: Collection[BrokerEpoch]) -> None:
        """All lives that are registered now. The others are forgotten."""
        for life in self._pardons.keys() - set(lives):
            del self._pardons[life]
