"""Finds the brokers that hung in a round while nothing else was wrong: only they have to be replaced soon."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Protocol

from strandline_lab.auditing.succession import Hang
from strandline_lab.chaos.core.faults import FaultKind, Role

HANGS: Final = frozenset({FaultKind.PAUSE, FaultKind.DISCONNECT})
_BROKER: Final = re.compile(rf"{Role.BROKER} (\d+)")
CALM_MS: Final = 3_000
"""A cluster may still recover from a fault that ended less than this before."""


class Moment(Protocol):
    """A line of the timeline, as far as it matters here."""

    @property
    def at_ms(self) -> int: ...
    @property
    def event(self) -> str: ...
    @property
    def fault(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def who(self) -> tuple[str, ...]: ...


def lone_hangs(moments: Iterable[Moment], *, within_ms: float) -> list[Hang]:
    """Hangs of single brokers. No other fault was there when they began, nor within `within_ms` after it."""
    said = list(moments)
    ends = {each.fault: each.at_ms for each in said if each.event == "fault_ended"}
    healed_ms = max((each.at_ms for each in said), default=0)
    began = {each.fault: each for each in said if each.event == "fault_began"}
    found = []
    for fault, each in began.items():
        broker = _broker(each)
        if broker is None or any(
            other.at_ms <= each.at_ms + within_ms and ends.get(number, healed_ms) >= each.at_ms - CALM_MS
            for number, other in began.items()
            if number != fault
        ):
            continue
        found.append(Hang(broker, each.at_ms, ends.get(fault, healed_ms)))
    return found


def brokers_of(moment: Moment) -> list[int]:
    """The brokers that a fault was done to."""
    return [int(found[1]) for name in moment.who if (found := _BROKER.fullmatch(name))]


def _broker(began: Moment) -> int | None:
    brokers = brokers_of(began)
    return brokers[0] if began.kind in HANGS and len(brokers) == 1 else None
