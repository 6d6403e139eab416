"""Checks the ends of requests in the state queues. Pure.

Every request was recorded as requested, and has exactly one end: completed, superseded or failed. The same
holds for every reassignment. Records with the same id and state are one step; the first of them counts.

Every request has an end, except those made after the cluster had settled, and those to a broker that is gone
for good.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from strandline.auditing.checks import REQUESTS, Finding, in_order
from strandline.vocabulary.state_changes import ENDS, ChangeKind, Command, RequestState, StateChangeEvent


@dataclass(slots=True)
class _Life:
    first: StateChangeEvent
    asked: bool = False
    ends: list[RequestState] = field(default_factory=list)


def findings(
    changes: Iterable[StateChangeEvent], *, settled_ms: int | None = None, gone: Collection[int] = ()
) -> list[Finding]:
    """All findings. `settled_ms`: when the cluster had settled; None if it has not, and requests may still
    wait. `gone`: brokers that do not return."""
    lives: dict[str, _Life] = {}
    for change in changes:
        if not isinstance(change.command, Command) and change.command is not ChangeKind.REASSIGN:
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
