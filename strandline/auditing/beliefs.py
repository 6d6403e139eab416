"""What members of groups believed to hold, by their own histories, and whether two held a partition at
once. Pure.

A member holds a partition from the moment at which its listener was told `assigned` until that of `revoked`
or `lost`. The processes have one clock, that of their machine.

* **Two owners.** The earlier member has to be told before the later one is: a group gives a partition to
  nobody before who had it has let it go. So each time at which two hold a partition is a fault, but for one
  reason: the earlier member was **expelled**, and does not know it yet. Nobody can take a partition from a
  member that cannot be reached; what it still receives may be received twice, and what it commits is
  refused. It was expelled if it was told `lost` in the end, or its coordinator said that it left, or lost
  something, before the later one was told. Who died holds nothing from its last word on.
* **Handover.** A member is given what it does not have, and gives up, or loses, what it has.
* **What the events say** (`ownership.py`) counts where the history of the earlier member is not there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from strandline.auditing import ownership
from strandline.auditing.checks import HANDOVER, TWO_OWNERS, Finding, in_order
from strandline.auditing.ownership import ASSIGNED, LEFT, LOST, REVOKED, GroupEvent, Holder, Holding


@dataclass(frozen=True, slots=True)
class Change:
    """What a member was told of partitions: `event` is assigned, revoked or lost."""

    event: str
    at_ms: int
    member: str
    generation: int
    topic: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Belief:
    """What one process of a group was told, in its order. `last_ms` is when it said its last word."""

    name: str
    group: str
    changes: Sequence[Change]
    last_ms: int

    @property
    def members(self) -> set[str]:
        """The ids that it had, one after the other."""
        return {change.member for change in self.changes}


def findings(beliefs: Sequence[Belief], events: Sequence[GroupEvent]) -> list[Finding]:
    """All that is wrong."""
    found: set[Finding] = set()
    held: list[_Held] = []
    for belief in beliefs:
        for each in _walk(belief):
            if isinstance(each, Finding):
                found.add(each)
            else:
                held.append(each)
    known = {member for belief in beliefs for member in belief.members}
    told = [_Held(each, each.holder.member) for each in ownership.holdings(events)]
    held += [each for each in told if each.holding.holder.member not in known]
    return in_order(found | set(_two_owners(held, _Expelled(events))))


@dataclass(frozen=True, slots=True)
class _Held:
    holding: Holding
    who: str


def _walk(belief: Belief) -> Iterator[_Held | Finding]:
    open_: dict[tuple[str, int], Change] = {}
    for change in belief.changes:
        for partition in change.partitions:
            lane = (change.topic, partition)
            begun = open_.get(lane)
            if change.event == ASSIGNED:
                if begun is not None:
                    yield _out_of_turn(belief, change, partition, "and held it already")
                else:
                    open_[lane] = change
            elif begun is None:
                yield _out_of_turn(belief, change, partition, "and did not hold it")
            else:
                del open_[lane]
                yield _Held(_holding(belief, lane, begun, change.at_ms, change.event), belief.name)
    for lane, begun in open_.items():
        yield _Held(_holding(belief, lane, begun, belief.last_ms, ""), belief.name)


def _holding(belief: Belief, lane: tuple[str, int], begun: Change, to_ms: int, ended: str) -> Holding:
    holder = Holder(belief.group, *lane, begun.member)
    return Holding(holder, begun.at_ms, max(begun.at_ms, to_ms), ended, begun.generation)


def _out_of_turn(belief: Belief, change: Change, partition: int, why: str) -> Finding:
    detail = f"{belief.name} was told at {change.at_ms} that this was {change.event}, {why}"
    return Finding(HANDOVER.name, change.topic, partition, None, detail)


class _Expelled:
    """When coordinators said that a member was out, or that it had lost a partition."""

    def __init__(self, events: Iterable[GroupEvent]) -> None:
        self._times: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for each in events:
            if each.event in (LEFT, LOST):
                self._times[each.group, each.member].append(each.at_ms)

    def between(self, holding: Holding, to_ms: int) -> bool:
        """True if it happened after the holding had begun and up to a moment."""
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
            holding_still = [each for each in holding_still if _goes_on(each.holding, from_ms)]
            for earlier in holding_still:
                one, two = earlier.holding, later.holding
                if earlier.who == later.who or one.ended == LOST or expelled.between(one, from_ms):
                    continue
                ended = (
                    f"until {one.to_ms} ({one.ended or 'its last word'})" if one.to_ms else "and does still"
                )
                yield Finding(
                    TWO_OWNERS.name,
                    topic,
                    partition,
                    None,
                    f"{earlier.who} held this for group {group} from {one.from_ms} {ended}, and {later.who} "
                    f"from {from_ms} on: generations {one.generation} and {two.generation}",
                )
            holding_still.append(later)


def _goes_on(holding: Holding, at_ms: int) -> bool:
    return holding.to_ms is None or holding.to_ms > at_ms


__all__ = ["ASSIGNED", "LOST", "REVOKED", "Belief", "Change", "findings"]
