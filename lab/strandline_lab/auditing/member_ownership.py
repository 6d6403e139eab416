"""Checks which partitions members of groups owned by their own histories, and whether two owned one at the
same time. Pure.

A member owns a partition from its listener's `assigned` until `revoked` or `lost`. The processes share the
clock of their machine.

* **Two owners.** A partition is given to a new owner only after the old one released it, so two owners at the
  same time are a fault, with one exception: the earlier member was **expelled** and does not know it yet. A
  group cannot take a partition from a member that it cannot reach; records may then be received twice, and
  the member's commits are refused. A member was expelled if its listener got `lost` in the end, or if its
  coordinator reported that it left or lost something before the later member was notified. A member that died
  owns nothing after the last line of its history.
* **Handover.** A member is given partitions that it does not own, and revokes or loses partitions that it
  owns.
* **Events of coordinators** (`ownership.py`) count where the history of the earlier member is missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from strandline.auditing.checks import HANDOVER, TWO_OWNERS, Finding, in_order
from strandline_lab.auditing import ownership
from strandline_lab.auditing.ownership import ASSIGNED, LEFT, LOST, REVOKED, GroupEvent, Holder, Holding


@dataclass(frozen=True, slots=True)
class Change:
    """A notification of a member's listener: `event` is assigned, revoked or lost."""

    event: str
    at_ms: int
    member: str
    generation: int
    topic: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MemberHistory:
    """The notifications of one process of a group, in order. `last_ms` is the time of its last line."""

    name: str
    group: str
    changes: Sequence[Change]
    last_ms: int

    @property
    def members(self) -> set[str]:
        """The ids that the process had, in order."""
        return {change.member for change in self.changes}


def findings(histories: Sequence[MemberHistory], events: Sequence[GroupEvent]) -> list[Finding]:
    """Returns all findings."""
    found: set[Finding] = set()
    held: list[_Held] = []
    for history in histories:
        for each in _walk(history):
            if isinstance(each, Finding):
                found.add(each)
            else:
                held.append(each)
    known = {member for history in histories for member in history.members}
    reported = [_Held(each, each.holder.member) for each in ownership.holdings(events)]
    held += [each for each in reported if each.holding.holder.member not in known]
    return in_order(found | set(_two_owners(held, _Expelled(events))))


@dataclass(frozen=True, slots=True)
class _Held:
    holding: Holding
    name: str


def _walk(history: MemberHistory) -> Iterator[_Held | Finding]:
    open_: dict[tuple[str, int], Change] = {}
    for change in history.changes:
        for partition in change.partitions:
            place = (change.topic, partition)
            begun = open_.get(place)
            if change.event == ASSIGNED:
                if begun is not None:
                    yield _out_of_turn(history, change, partition, "and held it already")
                else:
                    open_[place] = change
            elif begun is None:
                yield _out_of_turn(history, change, partition, "and did not hold it")
            else:
                del open_[place]
                yield _Held(_holding(history, place, begun, change.at_ms, change.event), history.name)
    for place, begun in open_.items():
        yield _Held(_holding(history, place, begun, history.last_ms, ""), history.name)


def _holding(
    history: MemberHistory, place: tuple[str, int], begun: Change, to_ms: int, ended: str
) -> Holding:
    holder = Holder(history.group, *place, begun.member)
    return Holding(holder, begun.at_ms, max(begun.at_ms, to_ms), ended, begun.generation)


def _out_of_turn(history: MemberHistory, change: Change, partition: int, why: str) -> Finding:
    detail = f"{history.name} was notified at {change.at_ms} that this was {change.event}, {why}"
    return Finding(HANDOVER.name, change.topic, partition, None, detail)


class _Expelled:
    """When coordinators reported that a member left its group or lost a partition."""

    def __init__(self, events: Iterable[GroupEvent]) -> None:
        self._times: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for each in events:
            if each.event in (LEFT, LOST):
                self._times[each.group, each.member].append(each.at_ms)

    def between(self, holding: Holding, to_ms: int) -> bool:
        """True if it happened between the begin of the holding and `to_ms`."""
        times = self._times.get((holding.holder.group, holding.holder.member), ())
        return any((holding.from_ms or 0) <= at <= to_ms for at in times)


def _two_owners(held: Iterable[_Held], expelled: _Expelled) -> Iterator[Finding]:
    by_place: defaultdict[tuple[str, str, int], list[tuple[int, _Held]]] = defaultdict(list)
    for each in held:
        if each.holding.from_ms is not None:
            by_place[each.holding.holder[:3]].append((each.holding.from_ms, each))
    for (group, topic, partition), rows in by_place.items():
        rows.sort(key=lambda row: row[0])
        holding_still: list[_Held] = []
        for from_ms, later in rows:
            holding_still = [each for each in holding_still if _continues(each.holding, from_ms)]
            for earlier in holding_still:
                one, two = earlier.holding, later.holding
                if earlier.name == later.name or one.ended == LOST or expelled.between(one, from_ms):
                    continue
                ended = (
                    f"until {one.to_ms} ({one.ended or 'its last word'})" if one.to_ms else "and does still"
                )
                yield Finding(
                    TWO_OWNERS.name,
                    topic,
                    partition,
                    None,
                    f"{earlier.name} held this for group {group} from {one.from_ms} {ended}, and "
                    f"{later.name} from {from_ms} on: generations {one.generation} and {two.generation}",
                )
            holding_still.append(later)


def _continues(holding: Holding, at_ms: int) -> bool:
    return holding.to_ms is None or holding.to_ms > at_ms


__all__ = ["ASSIGNED", "LOST", "REVOKED", "Change", "MemberHistory", "findings"]
