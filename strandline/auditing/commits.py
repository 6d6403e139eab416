"""What groups have committed, held against what their members received. Pure.

A committed offset is that of the record to be read next. It never falls: the members of two generations are
told apart, and who is no member any more commits nothing. (Resetting a group on purpose is another matter:
do not ask while that is done.)

A commit that a member was told to be done is: no offset that was asked for later is below it.

And a group commits what it has processed: from the first record of a partition that any of its members
received, each one below the committed offset was received by one of them. Records that the log does not
have any more, and offsets that never had one, are not missed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from strandline.auditing.checks import COMMITTED, Finding, in_order
from strandline.ids import TopicPartition

Partition = tuple[str, int]
"""Topic and partition."""

ASKED_BEFORE_MS_MAX: Final = 3_000
"""Longest time between a question for committed offsets and the moment at which its answer is noted."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What a group's coordinator said at a moment."""

    at_ms: int
    group: str
    topic: str
    partition: int
    offset: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def findings(
    commits: Iterable[Committed],
    received: Mapping[str, Mapping[Partition, Collection[int]]],
    log: Mapping[Partition, Sequence[int]],
    acknowledged: Iterable[Committed] = (),
) -> list[Finding]:
    """All that is wrong. `commits` in the order in which they were told; `received`: by group what its
    members received, of groups of which all histories are there (others are not held to it); `log`: the
    offsets that have a record, rising; `acknowledged`: commits that members were told to be done."""
    told = list(commits)
    return in_order({*_fell(told), *_passed(told, received, log), *_forgotten(told, acknowledged)})


def _fell(told: Iterable[Committed]) -> Iterator[Finding]:
    highest: dict[tuple[str, Partition], Committed] = {}
    for each in told:
        key = (each.group, each.place)
        before = highest.get(key, each)
        if each.offset < before.offset:
            yield Finding(
                COMMITTED.name,
                *each.place,
                each.offset,
                f"group {each.group} had {before.offset} at {before.at_ms}, and this at {each.at_ms}",
            )
        else:
            highest[key] = each


def _forgotten(told: Iterable[Committed], acknowledged: Iterable[Committed]) -> Iterator[Finding]:
    """Offsets below a commit that had been acknowledged when they were asked for. The last ones tell: an
    offset that falls is found by itself."""
    last: dict[tuple[str, Partition], Committed] = {}
    for each in told:
        last[each.group, each.place] = each
    for acked in acknowledged:
        found = last.get((acked.group, acked.place))
        if found is None or found.at_ms < acked.at_ms + ASKED_BEFORE_MS_MAX or found.offset >= acked.offset:
            continue
        detail = f"a commit of this was acknowledged at {acked.at_ms}, and group {acked.group} had"
        yield Finding(COMMITTED.name, *acked.place, acked.offset, f"{detail} {found.offset} at {found.at_ms}")


def _passed(
    told: Iterable[Committed],
    received: Mapping[str, Mapping[Partition, Collection[int]]],
    log: Mapping[Partition, Sequence[int]],
) -> Iterator[Finding]:
    highest: dict[tuple[str, Partition], Committed] = {}
    for each in told:
        key = (each.group, each.place)
        if key not in highest or each.offset > highest[key].offset:
            highest[key] = each
    for (group, lane), each in highest.items():
        if group not in received:
            continue
        known = received[group].get(lane, ())
        stored = log.get(lane, ())
        first = min(known, default=None)
        # Without any, the group can have begun at this very offset.
        below = (
            stored[bisect_left(stored, first) : bisect_left(stored, each.offset)] if first is not None else ()
        )
        missing = next((offset for offset in below if offset not in known), None)
        if missing is not None:
            detail = (
                f"group {group} has committed {each.offset}, and none of its members received this record"
            )
            yield Finding(COMMITTED.name, *lane, missing, detail)
        elif stored and each.offset > stored[-1] + 1:
            detail = f"group {group} has committed this, and the last record of the log is {stored[-1]}"
            yield Finding(COMMITTED.name, *lane, each.offset, detail)
