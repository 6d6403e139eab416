"""Judges how soon the partitions of a broker that hangs have another leader. Pure; times are milliseconds
since 1970, of one machine's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from strandline.auditing.checks import LEADERLESS, Finding, in_order
from strandline.ids import TopicPartition
from strandline.vocabulary.state_changes import ChangeKind, StateChangeEvent


class Elected(NamedTuple):
    """A leader of a partition, from an election on."""

    at_ms: float
    place: TopicPartition
    broker: int


@dataclass(frozen=True, slots=True)
class Hang:
    """A time for which a broker did not run, or was cut off, while nothing else was wrong."""

    broker: int
    from_ms: float
    to_ms: float


def next_leaders(
    elections: Iterable[Elected], broker: int, from_ms: float, to_ms: float
) -> Mapping[TopicPartition, float | None]:
    """For each partition that the broker led at `from_ms`: after which time another one was elected; None if
    none was until `to_ms`."""
    led: dict[TopicPartition, float | None] = {}
    for each in sorted(elections):
        if each.at_ms <= from_ms:
            if each.broker == broker:
                led[each.place] = None
            else:
                led.pop(each.place, None)
        elif each.at_ms <= to_ms and each.place in led and led[each.place] is None and each.broker != broker:
            led[each.place] = each.at_ms - from_ms
    return led


def findings(
    changes: Iterable[StateChangeEvent], hangs: Iterable[Hang], *, within_ms: float
) -> list[Finding]:
    """Partitions that had no other leader within this time, though another broker was in sync. Hangs that are
    shorter are not judged."""
    events = list(changes)
    elections = [
        Elected(each.at_ms, _place(each), int(each.broker))
        for each in events
        if each.command is ChangeKind.ELECT_LEADER
    ]
    return in_order(
        finding
        for hang in hangs
        if hang.to_ms - hang.from_ms >= within_ms
        for finding in _unreplaced(events, elections, hang, within_ms)
    )


def _unreplaced(
    events: Iterable[StateChangeEvent], elections: Iterable[Elected], hang: Hang, within_ms: float
) -> Iterator[Finding]:
    in_sync: dict[TopicPartition, set[int]] = {}
    for each in sorted(events, key=lambda event: event.at_ms):
        if each.isr is not None and each.at_ms <= hang.from_ms:
            in_sync[_place(each)] = {int(member) for member in each.isr}
    replaced = next_leaders(elections, hang.broker, hang.from_ms, hang.from_ms + within_ms)
    for place, after_ms in replaced.items():
        if after_ms is None and in_sync.get(place, set()) - {hang.broker}:
            detail = (
                f"broker {hang.broker} hung from {hang.from_ms:.0f} to {hang.to_ms:.0f}, and within "
                f"{within_ms / 1000:g} s no other broker was elected"
            )
            yield Finding(LEADERLESS.name, *place, None, detail)


def _place(event: StateChangeEvent) -> TopicPartition:
    return TopicPartition(event.topic, int(event.key.partition))
