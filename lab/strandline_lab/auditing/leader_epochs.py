"""Checks the leader epochs of partitions by the events in `__state_changes`. Pure.

A leader epoch of a partition has an election, changes of the ISR by its winner, and perhaps a resignation:

* An epoch has one election. Only its winner changes the ISR in it, or resigns, which happens once.
* Each change of the ISR begins where the one before it ended: no event between them is missing.
* The elected leader and the ISR that it begins with were in the last ISR of the epoch before, unless the
  election was unclean.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from strandline.auditing.checks import LEADERSHIP, Finding, in_order
from strandline.ids import BrokerId, PartitionKey
from strandline.vocabulary.state_changes import ChangeKind, StateChangeEvent


@dataclass(slots=True)
class LeaderEpoch:
    """The events of one leader epoch of one partition."""

    elections: list[StateChangeEvent] = field(default_factory=list)
    changes: list[StateChangeEvent] = field(default_factory=list)
    """The changes in the order of the versions that they gave the `isr` znode."""
    resignations: list[StateChangeEvent] = field(default_factory=list)

    @property
    def all(self) -> list[StateChangeEvent]:
        return [*self.elections, *self.changes, *self.resignations]

    @property
    def last_isr(self) -> set[BrokerId]:
        return set(self.all[-1].isr or ())


Epochs = Mapping[PartitionKey, Mapping[int, LeaderEpoch]]
"""The leader epochs by number, ascending."""


def epochs_in(events: Iterable[StateChangeEvent]) -> Epochs:
    """Groups `events`, in the order of the topic, by partition and leader epoch; each step once."""
    found: defaultdict[PartitionKey, dict[int, LeaderEpoch]] = defaultdict(dict)
    for event in events:
        if event.command not in (
            ChangeKind.ELECT_LEADER,
            ChangeKind.CHANGE_ISR,
            ChangeKind.RESIGN_LEADER,
        ):
            continue
        leader_epoch = found[event.key].setdefault(event.epoch, LeaderEpoch())
        match event.command:
            case ChangeKind.ELECT_LEADER:
                leader_epoch.elections.append(event)
            case ChangeKind.CHANGE_ISR:
                leader_epoch.changes.append(event)
            case ChangeKind.RESIGN_LEADER:
                leader_epoch.resignations.append(event)
    for key, of_partition in found.items():
        found[key] = {epoch: of_partition[epoch] for epoch in sorted(of_partition)}
        for leader_epoch in of_partition.values():
            leader_epoch.changes.sort(key=_version)
    return found


def _version(event: StateChangeEvent) -> int:
    """The version of the `isr` znode that a change wrote: the event's id ends in it."""
    return int(event.id.rpartition("-")[2])


def findings(events: Iterable[StateChangeEvent]) -> list[Finding]:
    """Returns all findings."""
    epochs = epochs_in(events)
    return in_order({*not_elected(epochs), *disconnected(epochs), *elected_out_of_sync(epochs)})


def _finding(about: StateChangeEvent, detail: str) -> Finding:
    return Finding(LEADERSHIP.name, about.topic, int(about.key.partition), None, detail)


def not_elected(epochs: Epochs) -> Iterator[Finding]:
    """Finds epochs without one election, and changes by brokers that did not win the epoch."""
    for of_partition in epochs.values():
        for epoch, leader_epoch in of_partition.items():
            winners = [event.broker for event in leader_epoch.elections]
            if len(winners) != 1:
                who = " and ".join(map(str, winners)) or "no broker"
                yield _finding(leader_epoch.all[0], f"in epoch {epoch} {who} was elected")
            for event in (*leader_epoch.changes, *leader_epoch.resignations):
                if event.broker not in winners:
                    detail = f"broker {event.broker} did {event.id} in epoch {epoch}, which it did not win"
                    yield _finding(event, detail)
            if len(leader_epoch.resignations) > 1:
                ids = ", ".join(event.id for event in leader_epoch.resignations)
                yield _finding(
                    leader_epoch.resignations[0], f"epoch {epoch} was given up more than once: {ids}"
                )


def disconnected(epochs: Epochs) -> Iterator[Finding]:
    """Finds changes of an ISR that do not begin where the one before ended: an event is missing."""
    for of_partition in epochs.values():
        for epoch, leader_epoch in of_partition.items():
            for before, after in pairwise(leader_epoch.all):
                old, left, joined = set(before.isr or ()), set(after.left), set(after.joined)
                if not left <= old or joined & old or (old - left) | joined != set(after.isr or ()):
                    yield _finding(
                        after,
                        f"epoch {epoch}: the ISR was {before.isr} by {before.id}, then {after.left} left and "
                        f"{after.joined} joined, and it is {after.isr} by {after.id}",
                    )


def elected_out_of_sync(epochs: Epochs) -> Iterator[Finding]:
    """Finds clean elections of a broker outside the last ISR, or that add one to it (CORRECTNESS E2, I1)."""
    for of_partition in epochs.values():
        for (earlier, before), (epoch, after) in pairwise(of_partition.items()):
            for election in after.elections:
                strangers = {election.broker, *(election.isr or ())} - before.last_isr
                if strangers and not election.unclean:
                    yield _finding(
                        election,
                        f"at the end of epoch {earlier} {sorted(before.last_isr)} were in sync, and epoch "
                        f"{epoch} began with broker {election.broker} of {election.isr}",
                    )
