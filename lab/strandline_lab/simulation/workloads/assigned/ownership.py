"""Judges who had which partition when, and which epochs members got. Pure.

A member has a partition from the moment at which its application gets it until the application has given it
up, or its process ends. No other member may have it meanwhile, unless either may be **out of the group**
and not know it yet: it has said that it leaves, or has joined again, its session may be over, or its time to
give the partition up. All of these are looked for in the member's own heartbeats.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from strandline.ids import PartitionKey
from strandline.vocabulary.groups import JOINS
from strandline_lab.simulation.member_records import LOST, Beat, Held, MemberRecord
from strandline_lab.simulation.workloads.assigned.timing import REBALANCE_MS, SESSION_MS

DRIFT: Final = 0.999
"""The clock of a coordinator may be faster than that of the world, by less than this."""
FIRST_S: Final = 0.0


def two_owners(members: Sequence[MemberRecord]) -> Iterator[str]:
    """Partitions that two members had at one time (G24)."""
    by_key: defaultdict[PartitionKey, list[tuple[float, int, Held]]] = defaultdict(list)
    for number, member in enumerate(members):
        for each in member.held:
            by_key[each.key].append((each.from_s, number, each))
    for found in by_key.values():
        found.sort(key=lambda row: row[:2])
        held: list[tuple[int, Held]] = []
        for from_s, number, later in found:
            held = [row for row in held if row[1].to_s is None or row[1].to_s > from_s]
            for other, earlier in held:
                one, two = members[other], members[number]
                if not (may_be_out(one, earlier, from_s) or may_be_out(two, later, from_s)):
                    until = "on" if earlier.to_s is None else f"to {earlier.to_s:.3f} s"
                    yield (
                        f"{one.name} has {later.topic}-{later.key.partition} from {earlier.from_s:.3f} s "
                        f"{until}, and {two.name} from {from_s:.3f} s on"
                    )
            held.append((number, later))


def may_be_out(member: MemberRecord, held: Held, at_s: float) -> bool:
    """Whether the coordinator may have given the partition away by then."""
    beats = [beat for beat in member.beats if beat.member == held.member and beat.asked_s <= at_s]
    if any(beat.epoch <= JOINS and beat.asked_s > held.from_s for beat in beats):
        return True
    heard = max((beat.asked_s for beat in beats if beat.taken), default=FIRST_S)
    if at_s - heard >= SESSION_MS / 1000 * DRIFT:
        return True
    asked_s = _may_be_asked_since(beats, held.key)
    return asked_s is not None and at_s - asked_s >= REBALANCE_MS / 1000 * DRIFT


def _may_be_asked_since(beats: Sequence[Beat], key: PartitionKey) -> float | None:
    """From when on the member may have been asked to give the partition up; None: it was not."""
    since: float | None = None
    for beat in beats:
        if beat.taken and (key in beat.assignment if beat.assignment is not None else since is None):
            since = None
        elif since is None:
            since = beat.asked_s
    return since


def unsaid(members: Iterable[MemberRecord]) -> Iterator[str]:
    """Heartbeats that leave out a partition which the application still has (G24)."""
    for member in members:
        for beat in member.beats:
            if beat.owned is None or beat.epoch <= JOINS:
                continue
            for held in member.held:
                ends_s = beat.asked_s + 1 if held.to_s is None else held.to_s
                has = held.member == beat.member and held.from_s <= beat.asked_s < ends_s
                if has and held.ended != LOST and held.key not in beat.owned:
                    yield (
                        f"{member.name} says at {beat.asked_s:.3f} s that it has given "
                        f"{held.topic}-{held.key.partition} up, which its application has"
                    )


def fallen_epochs(members: Sequence[MemberRecord]) -> Iterator[str]:
    """Epochs of members that fell (G25)."""
    taken = [(beat, member.name) for member in members for beat in member.beats if beat.taken]
    for beat, name in taken:
        if beat.epoch > JOINS and beat.answer_epoch < beat.epoch:
            yield f"{name} came at {beat.asked_s:.3f} s in epoch {beat.epoch}, and got {beat.answer_epoch}"
    answered = sorted((beat.answered_s or 0.0, beat.answer_epoch) for beat, _ in taken if beat.epoch >= JOINS)
    place, highest = 0, 0
    for beat, name in sorted(taken, key=lambda row: row[0].asked_s):
        while place < len(answered) and answered[place][0] < beat.asked_s:
            highest = max(highest, answered[place][1])
            place += 1
        if beat.epoch == JOINS and beat.answer_epoch < highest:
            yield (
                f"{name} joined after {beat.asked_s:.3f} s in epoch {beat.answer_epoch}, and a member had "
                f"epoch {highest} before"
            )
