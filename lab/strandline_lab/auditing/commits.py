"""Compares the commits of groups with the records that their members received. Pure.

A committed offset is that of the next record to read. It never falls: the coordinator distinguishes the
members of two generations, and rejects commits from former members. (An operator may reset a group; do not
audit meanwhile.)

There is one exception. A Kafka client that got no answer to a commit sends it again. librdkafka does so even
after a newer commit of its own, if its coordinator moves. Kafka's coordinators store that older offset, and
so do ours. It is no fault if the client's own history shows it: the older commit was answered after the newer
one. A coordinator that forgets a commit is found all the same: no such answer is in the history.

An acknowledged commit is durable: no offset that is read later is below it.

A group commits what it has processed: from the first record of a partition that any of its members received,
each record below the committed offset was received by one of them. Records that the log no longer has, and
offsets without a record, are not required.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from strandline.auditing.checks import COMMITTED, Finding, in_order
from strandline.ids import TopicPartition

Partition = tuple[str, int]
"""Topic and partition."""

ASKED_BEFORE_MS_MAX: Final = 3_000
"""Longest time between a request for committed offsets and the time noted for its answer."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A coordinator's answer at a moment."""

    at_ms: int
    group: str
    topic: str
    partition: int
    offset: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class KafkaTenure:
    """What a Kafka client did with a partition of its group, from one assignment of it to the next."""

    group: str
    place: TopicPartition
    received_ms: dict[int, int] = field(default_factory=dict)
    """When it received each offset."""
    acknowledged: list[Committed] = field(default_factory=list)
    """Its commits, in the order of their answers."""

    def sent_again(self, newer: Committed, older: Committed) -> bool:
        """True if `newer` and `older` are both its own commits, and `older` was answered after `newer` was,
        or after a coordinator had `newer`. `newer`: the first answer of a coordinator with that offset."""
        received_ms = self.received_ms.get(newer.offset - 1)
        if received_ms is None or received_ms > newer.at_ms:
            return False
        offsets = [each.offset for each in self.acknowledged]
        answered = offsets.index(newer.offset) if newer.offset in offsets else len(offsets)
        return any(
            each.offset == older.offset and (number > answered or each.at_ms > newer.at_ms)
            for number, each in enumerate(self.acknowledged)
        )

    @property
    def standing(self) -> Iterator[Committed]:
        """Its acknowledged commits without those that it took back by an older one."""
        lowest: int | None = None
        for each in reversed(self.acknowledged):
            if lowest is None or each.offset <= lowest:
                lowest = each.offset
                yield each


def findings(
    commits: Iterable[Committed],
    received: Mapping[str, Mapping[Partition, Collection[int]]],
    log: Mapping[Partition, Sequence[int]],
    acknowledged: Iterable[Committed] = (),
    kafka: Collection[KafkaTenure] = (),
) -> list[Finding]:
    """All findings. `commits`: in the order of their answers. `received`: by group, the offsets that its
    members received; only for groups with all histories (others are not compared). `log`: the offsets that
    have a record, ascending. `acknowledged`: acknowledged commits of strandline's members. `kafka`: of Kafka
    clients."""
    commits = list(commits)
    promised = [*acknowledged, *(each for tenure in kafka for each in tenure.standing)]
    return in_order(
        {*_fell(commits, kafka), *_passed(commits, received, log), *_forgotten(commits, promised)}
    )


def _fell(commits: Iterable[Committed], kafka: Iterable[KafkaTenure]) -> Iterator[Finding]:
    tenures: defaultdict[tuple[str, Partition], list[KafkaTenure]] = defaultdict(list)
    for tenure in kafka:
        tenures[tenure.group, tenure.place].append(tenure)
    highest: dict[tuple[str, Partition], Committed] = {}
    """The first answer with the highest offset, or with the one that its member went back to."""
    for each in commits:
        key = (each.group, each.place)
        before = highest.setdefault(key, each)
        if each.offset > before.offset:
            highest[key] = each
        elif each.offset < before.offset:
            if any(tenure.sent_again(before, each) for tenure in tenures[key]):
                highest[key] = each
            else:
                yield Finding(
                    COMMITTED.name,
                    *each.place,
                    each.offset,
                    f"group {each.group} had {before.offset} at {before.at_ms}, and this at {each.at_ms}",
                )


def _forgotten(commits: Iterable[Committed], acknowledged: Iterable[Committed]) -> Iterator[Finding]:
    """Offsets below a commit that had been acknowledged at their request. The last offset suffices, since
    `_fell` finds one that falls."""
    last: dict[tuple[str, Partition], Committed] = {}
    for each in commits:
        last[each.group, each.place] = each
    for acked in acknowledged:
        found = last.get((acked.group, acked.place))
        if found is None or found.at_ms < acked.at_ms + ASKED_BEFORE_MS_MAX or found.offset >= acked.offset:
            continue
        detail = f"a commit of this was acknowledged at {acked.at_ms}, and group {acked.group} had"
        yield Finding(COMMITTED.name, *acked.place, acked.offset, f"{detail} {found.offset} at {found.at_ms}")


def _passed(
    commits: Iterable[Committed],
    received: Mapping[str, Mapping[Partition, Collection[int]]],
    log: Mapping[Partition, Sequence[int]],
) -> Iterator[Finding]:
    highest: dict[tuple[str, Partition], Committed] = {}
    for each in commits:
        key = (each.group, each.place)
        if key not in highest or each.offset > highest[key].offset:
            highest[key] = each
    for (group, place), each in highest.items():
        if group not in received:
            continue
        known = received[group].get(place, ())
        stored = log.get(place, ())
        first = min(known, default=None)
        # Without any received record, the group can have begun at this very offset.
        below = (
            stored[bisect_left(stored, first) : bisect_left(stored, each.offset)] if first is not None else ()
        )
        missing = next((offset for offset in below if offset not in known), None)
        if missing is not None:
            detail = (
                f"group {group} has committed {each.offset}, and none of its members received this record"
            )
            yield Finding(COMMITTED.name, *place, missing, detail)
        elif stored and each.offset > stored[-1] + 1:
            detail = f"group {group} has committed this, and the last record of the log is {stored[-1]}"
            yield Finding(COMMITTED.name, *place, each.offset, detail)
