"""Who led when, and with whom in sync, by what `__state_changes` told. Pure.

A reign is one epoch of one partition: an election, changes of the ISR by who won it, and perhaps a
resignation. What is judged:

* An epoch has one election, and nobody but its winner changes the ISR in it, or gives it up, which happens
  once.
* Each change of the ISR begins where the one before it ended: nothing between them is untold.
* Who is elected, and whom it begins with, was in the last ISR of the reign before, unless the election was
  unclean.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from strandline.auditing.checks import LEADERSHIP, Finding, in_order
from strandline.ids import BrokerId, PartitionKey
from strandline.vocabulary.state_changes import Happening, StateChangeEvent


@dataclass(slots=True)
class Reign:
    """What was told of one epoch of one partition."""

    elections: list[StateChangeEvent] = field(default_factory=list)
    changes: list[StateChangeEvent] = field(default_factory=list)
    """In the order of the versions that they gave the `isr` znode."""
    resignations: list[StateChangeEvent] = field(default_factory=list)

    @property
    def all(self) -> list[StateChangeEvent]:
        return [*self.elections, *self.changes, *self.resignations]

    @property
    def last_isr(self) -> set[BrokerId]:
        return set(self.all[-1].isr or ())


Reigns = Mapping[PartitionKey, Mapping[int, Reign]]
"""By epoch, rising."""


def reigns_in(events: Iterable[StateChangeEvent]) -> Reigns:
    """`events` in the order of the topic, each step once."""
    found: defaultdict[PartitionKey, dict[int, Reign]] = defaultdict(dict)
    for event in events:
        if event.command not in (Happening.ELECT_LEADER, Happening.CHANGE_ISR, Happening.RESIGN_LEADER):
            continue
        reign = found[event.key].setdefault(event.epoch, Reign())
        match event.command:
            case Happening.ELECT_LEADER:
                reign.elections.append(event)
            case Happening.CHANGE_ISR:
                reign.changes.append(event)
            case Happening.RESIGN_LEADER:
                reign.resignations.append(event)
    for key, of_partition in found.items():
        found[key] = {epoch: of_partition[epoch] for epoch in sorted(of_partition)}
        for reign in of_partition.values():
            reign.changes.sort(key=_version)
    return found


def _version(event: StateChangeEvent) -> int:
    """Of the znode that a change of an ISR wrote: its id ends in it."""
    return int(event.id.rpartition("-")[2])


def findings(events: Iterable[StateChangeEvent]) -> list[Finding]:
    """All that is wrong."""
    reigns = reigns_in(events)
    return in_order({*usurped(reigns), *disconnected(reigns), *elected_out_of_sync(reigns)})


def _finding(about: StateChangeEvent, detail: str) -> Finding:
    return Finding(LEADERSHIP.name, about.topic, int(about.key.partition), None, detail)


def usurped(reigns: Reigns) -> Iterator[Finding]:
    """Epochs with no election or two, and deeds in an epoch of who did not win it."""
    for of_partition in reigns.values():
        for epoch, reign in of_partition.items():
            winners = [event.broker for event in reign.elections]
            if len(winners) != 1:
                who = " and ".join(map(str, winners)) or "nobody"
                yield _finding(reign.all[0], f"in epoch {epoch} {who} was elected")
            for event in (*reign.changes, *reign.resignations):
                if event.broker not in winners:
                    detail = f"broker {event.broker} did {event.id} in epoch {epoch}, which it did not win"
                    yield _finding(event, detail)
            if len(reign.resignations) > 1:
                ids = ", ".join(event.id for event in reign.resignations)
                yield _finding(reign.resignations[0], f"epoch {epoch} was given up more than once: {ids}")


def disconnected(reigns: Reigns) -> Iterator[Finding]:
    """Changes of an ISR that do not begin where the one before ended: something in between was not told."""
    for of_partition in reigns.values():
        for epoch, reign in of_partition.items():
            for before, after in pairwise(reign.all):
                old, left, joined = set(before.isr or ()), set(after.left), set(after.joined)
                if not left <= old or joined & old or (old - left) | joined != set(after.isr or ()):
                    yield _finding(
                        after,
                        f"epoch {epoch}: the ISR was {before.isr} by {before.id}, then {after.left} left and "
                        f"{after.joined} joined, and it is {after.isr} by {after.id}",
                    )


def elected_out_of_sync(reigns: Reigns) -> Iterator[Finding]:
    """Elections, none of them unclean, of who was not in the last ISR, or that let somebody into it
    (CORRECTNESS E2, I1)."""
    for of_partition in reigns.values():
        for (earlier, before), (epoch, after) in pairwise(of_partition.items()):
            for election in after.elections:
                strangers = {election.broker, *(election.isr or ())} - before.last_isr
                if strangers and not election.unclean:
                    yield _finding(
                        election,
                        f"at the end of epoch {earlier} {sorted(before.last_isr)} were in sync, and epoch "
                        f"{epoch} began with broker {election.broker} of {election.isr}",
                    )
