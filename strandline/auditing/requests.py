"""How requests of the state queue ended. Pure.

Every request was asked for, and has exactly one end: completed, superseded or failed; so has every
reassignment. A record that was written twice, of one id and one state, is one step: of it the first counts.

None is left without an end, save what was asked for once all had settled, and what was asked of a broker
that is gone for good.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from strandline.auditing.checks import REQUESTS, Finding, in_order
from strandline.vocabulary.state_changes import ENDS, Command, Happening, RequestState, StateChangeEvent


@dataclass(slots=True)
class _Life:
    first: StateChangeEvent
    asked: bool = False
    ends: list[RequestState] = field(default_factory=list)


def findings(
    changes: Iterable[StateChangeEvent], *, settled_ms: int | None = None, gone: Collection[int] = ()
) -> list[Finding]:
    """All that is wrong. `settled_ms`: when all had settled; None if they have not, and requests may wait
    still. `gone` are brokers that do not come back."""
    lives: dict[str, _Life] = {}
    for change in changes:
        if not isinstance(change.command, Command) and change.command is not Happening.REASSIGN:
            continue
        life = lives.setdefault(change.id, _Life(change))
        life.asked |= change.state is RequestState.REQUESTED
        if change.state in ENDS and change.state not in life.ends:
            life.ends.append(change.state)
    found: list[Finding] = []
    for life in lives.values():
        first = life.first
        what = f"{first.command.value} {first.id} to broker {first.broker}"
        if not life.asked:
            found.append(_finding(first, f"{what} was never requested"))
        if len(life.ends) > 1:
            ends = " and ".join(end.value for end in life.ends)
            found.append(_finding(first, f"{what} has the ends {ends}"))
        waits = settled_ms is not None and first.at_ms < settled_ms and first.broker not in gone
        if not life.ends and waits:
            found.append(_finding(first, f"{what}, requested at {first.at_ms}, has no end"))
    return in_order(found)


def _finding(change: StateChangeEvent, detail: str) -> Finding:
    return Finding(REQUESTS.name, change.topic, int(change.key.partition), None, detail)
