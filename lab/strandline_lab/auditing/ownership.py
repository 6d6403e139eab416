"""Determines from `__group_events` which member held which partition of a group, and finds overlaps. Pure.

docs/use/groups.md describes the events. This module defines the results of the Spark job for larger data
(`pipeline/jobs/ownership.py`), in the same steps: times are moved into the bounds that the coordinator's
clock sets, then combined to holdings, and those to overlaps.

Events are missing if a coordinator died before it wrote them, so an overlap in the events may be no real one:
`member_ownership.py` decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

ASSIGNED, REVOKED, LOST, LEFT = "assigned", "revoked", "lost", "member_left"
STARTED, STABLE = "generation_started", "generation_stable"


@dataclass(frozen=True, slots=True)
class GroupEvent:
    """One event, as far as it concerns ownership. `recorded_ms`: when the coordinator recorded it, by its own
    clock; None if unknown. `partitions` are by topic."""

    event: str
    group: str
    generation: int
    at_ms: int
    member: str = ""
    partitions: Mapping[str, Sequence[int]] = field(default_factory=dict)
    recorded_ms: int | None = None


class Holder(NamedTuple):
    """A member and a partition of its group."""

    group: str
    topic: str
    partition: int
    member: str


@dataclass(frozen=True, slots=True)
class Holding:
    """A time for which a member held a partition, until before `to_ms`. `from_ms` is None if it began before
    the first event. If it has not ended, `to_ms` is None and `ended` is empty. `ended` is an event: revoked,
    lost, member_left."""

    holder: Holder
    from_ms: int | None
    to_ms: int | None
    ended: str
    generation: int


class Overlap(NamedTuple):
    """A time for which the same members, two or more, held a partition. `to_ms` is None if it has not
    ended."""

    group: str
    topic: str
    partition: int
    from_ms: int
    to_ms: int | None
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Moment:
    event: str
    at_ms: int
    generation: int


def holdings(events: Iterable[GroupEvent]) -> list[Holding]:
    """All holdings, from all events in the order of the topic, each once."""
    found: list[Holding] = []
    for holder, moments in _moments(list(events)).items():
        found += _of_one(holder, moments)
    return found


def _moments(events: Sequence[GroupEvent]) -> dict[Holder, list[_Moment]]:
    """The assignments and releases of each holder, in the order of the topic. A member that left released all
    that it ever had."""
    bounds = _bounds(events)
    had: defaultdict[tuple[str, str], dict[Holder, None]] = defaultdict(dict)
    for each in events:
        if each.event == ASSIGNED:
            had[each.group, each.member] |= dict.fromkeys(_holders(each))
    found: defaultdict[Holder, list[_Moment]] = defaultdict(list)
    for each in events:
        if each.event in (ASSIGNED, REVOKED, LOST):
            holders: Iterable[Holder] = _holders(each)
        elif each.event == LEFT:
            holders = had[each.group, each.member]
        else:
            continue
        at_ms = _placed(each, *bounds.get((each.group, each.generation), (None, None)))
        for holder in holders:
            found[holder].append(_Moment(each.event, at_ms, each.generation))
    return found


def _holders(event: GroupEvent) -> list[Holder]:
    return [
        Holder(event.group, topic, number, event.member)
        for topic, numbers in event.partitions.items()
        for number in numbers
    ]


def _bounds(events: Iterable[GroupEvent]) -> dict[tuple[str, int], tuple[int | None, int | None]]:
    """By group and generation: when it became stable, and when the next generation that began did so."""
    first: defaultdict[str, dict[tuple[str, int], int]] = defaultdict(dict)
    known: defaultdict[str, set[int]] = defaultdict(set)
    for each in events:
        key = (each.group, each.generation)
        known[each.group].add(each.generation)
        first[each.event][key] = min(each.at_ms, first[each.event].get(key, each.at_ms))
    found: dict[tuple[str, int], tuple[int | None, int | None]] = {}
    for group, generations in known.items():
        next_started: int | None = None
        for generation in sorted(generations, reverse=True):
            key = (group, generation)
            found[key] = first[STABLE].get(key), next_started
            next_started = first[STARTED].get(key, next_started)
    return found


def _placed(event: GroupEvent, stable_ms: int | None, next_started_ms: int | None) -> int:
    """The event's time, moved to be not before its generation was stable, nor after the next one began or the
    event was recorded."""
    recorded_ms = event.at_ms if event.recorded_ms is None else event.recorded_ms
    latest = min(recorded_ms, recorded_ms if next_started_ms is None else next_started_ms)
    return min(latest, max(event.at_ms, event.at_ms if stable_ms is None else stable_ms))


def _of_one(holder: Holder, moments: Sequence[_Moment]) -> list[Holding]:
    """The holdings of one holder. Of several begins or several ends in a row, the first counts. A leave does
    not change partitions that the member had released before."""
    found: list[Holding] = []
    begun: _Moment | None = None
    before = ""
    for each in moments:
        if each.event == ASSIGNED:
            begun = begun if before == ASSIGNED else each
        elif begun is not None:
            ended_ms = max(begun.at_ms, each.at_ms)  # the clocks of two coordinators may differ
            found.append(Holding(holder, begun.at_ms, ended_ms, each.event, begun.generation))
            begun = None
        elif not before and each.event != LEFT:
            found.append(Holding(holder, None, each.at_ms, each.event, each.generation))
        before = each.event
    if begun is not None:
        found.append(Holding(holder, begun.at_ms, None, "", begun.generation))
    return found


def overlaps(holdings: Iterable[Holding]) -> list[Overlap]:
    """Times at which a partition had two holders or more, from each change to the next. A release and an
    assignment in the same millisecond do not overlap. Holdings that began before the first event are
    ignored."""
    held: defaultdict[tuple[str, str, int], list[Holding]] = defaultdict(list)
    for each in holdings:
        if each.from_ms is not None and (each.to_ms is None or each.to_ms > each.from_ms):
            held[each.holder[:3]].append(each)
    found: list[Overlap] = []
    for place, of_place in held.items():
        times = {each.from_ms for each in of_place} | {each.to_ms for each in of_place}
        changes = sorted(time for time in times if time is not None)
        for from_ms, to_ms in zip(changes, [*changes[1:], None], strict=True):
            members = {
                each.holder.member
                for each in of_place
                if each.from_ms is not None
                and each.from_ms <= from_ms
                and (each.to_ms is None or each.to_ms > from_ms)
            }
            if len(members) > 1:
                found.append(Overlap(*place, from_ms, to_ms, tuple(sorted(members))))
    return sorted(found, key=lambda each: (each.from_ms, each[:3]))
