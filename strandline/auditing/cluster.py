"""Judges observations of partitions, and recorded elections. Pure.

For each partition:

* An observation that names a leader has it among its in-sync replicas.
* One epoch has one leader, in all observations and election records.
* The epochs of elections rise in the order of their records. (An observer may ask brokers that know the state
  of different times, so the epochs that it observes may fall.)
* The high watermarks that one observer sees do not fall within an epoch, or from an older to a newer epoch. A
  later answer of a leader of an older epoch is not compared with those of a newer one: it does not know yet
  that it was replaced, and clients that know the newer epoch ignore it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from strandline.auditing.checks import FELL, LEADERSHIP, Finding, in_order
from strandline.ids import PartitionKey, TopicPartition
from strandline.vocabulary.state_changes import ChangeKind, StateChangeEvent

NOBODY = -1


@dataclass(frozen=True, slots=True)
class Observation:
    """The state of a partition that an observer received at a moment. `leader` is NOBODY if there was none;
    `watermark` and `end` (of the leader's log) are None if the leader did not answer."""

    at_ms: int
    observer: str
    topic: str
    partition: int
    leader: int
    epoch: int
    isr: tuple[int, ...]
    watermark: int | None = None
    end: int | None = None

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def findings(
    observations: Iterable[Observation],
    changes: Iterable[StateChangeEvent] = (),
    *,
    crowded_out: Iterable[StateChangeEvent] = (),
) -> list[Finding]:
    """All findings. Observations are in the order in which they were made, `changes` in the order of the
    topic. Events that were `crowded_out` of their trail may be recorded after later ones."""
    seen = list(observations)
    elections = [change for change in changes if change.command is ChangeKind.ELECT_LEADER]
    return in_order(
        {
            *_outside_isr(seen),
            *_two_leaders(seen, elections),
            *_epochs_fell(elections, {event.identity for event in crowded_out}),
            *_watermarks_fell(seen),
        }
    )


def _outside_isr(seen: Iterable[Observation]) -> Iterator[Finding]:
    """The first such observation of each partition and epoch."""
    seen_before: set[tuple[TopicPartition, int]] = set()
    for each in seen:
        if each.leader == NOBODY or each.leader in each.isr or (each.place, each.epoch) in seen_before:
            continue
        seen_before.add((each.place, each.epoch))
        isr = ", ".join(map(str, each.isr))
        yield Finding(
            LEADERSHIP.name,
            *each.place,
            None,
            f"{each.observer} saw leader {each.leader} of epoch {each.epoch}, and the ISR {isr or '-'}, "
            f"at {each.at_ms}",
        )


def _epochs_fell(changes: Iterable[StateChangeEvent], late: Collection[tuple[str, str]]) -> Iterator[Finding]:
    highest: dict[PartitionKey, StateChangeEvent] = {}
    for change in changes:
        if change.identity in late:
            continue
        before = highest.get(change.key, change)
        if change.epoch < before.epoch:
            detail = (
                f"the election of broker {change.broker} in epoch {change.epoch} is recorded after that of "
                f"broker {before.broker} in epoch {before.epoch}"
            )
            yield Finding(LEADERSHIP.name, change.topic, int(change.key.partition), None, detail)
        else:
            highest[change.key] = change


def _two_leaders(seen: Iterable[Observation], elections: Iterable[StateChangeEvent]) -> Iterator[Finding]:
    leaders: dict[tuple[TopicPartition, int], tuple[int, str]] = {}
    elected = (
        (
            TopicPartition(change.topic, int(change.key.partition)),
            int(change.epoch),
            int(change.broker),
            change.id,
        )
        for change in elections
    )
    observed = (
        (each.place, each.epoch, each.leader, f"{each.observer} at {each.at_ms}")
        for each in seen
        if each.leader != NOBODY
    )
    for place, epoch, leader, who in (*elected, *observed):
        first, by = leaders.setdefault((place, epoch), (leader, who))
        if first != leader:
            detail = f"epoch {epoch} had leaders {first} ({by}) and {leader} ({who})"
            yield Finding(LEADERSHIP.name, *place, None, detail)


def _watermarks_fell(seen: Iterable[Observation]) -> Iterator[Finding]:
    highest: dict[tuple[str, TopicPartition], dict[int, int]] = {}
    for each in seen:
        if each.watermark is None or each.leader == NOBODY:
            continue
        by_epoch = highest.setdefault((each.observer, each.place), {})
        bound = max(((mark, epoch) for epoch, mark in by_epoch.items() if epoch <= each.epoch), default=None)
        if bound is not None and each.watermark < bound[0]:
            yield Finding(
                FELL.name,
                *each.place,
                each.watermark,
                f"{each.observer} received {each.watermark} in epoch {each.epoch}, at {each.at_ms}, after "
                f"{bound[0]} in epoch {bound[1]}",
            )
        by_epoch[each.epoch] = max(each.watermark, by_epoch.get(each.epoch, 0))
