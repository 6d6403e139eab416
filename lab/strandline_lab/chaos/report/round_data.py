"""The data of a round as plain values. Times are milliseconds since 1970 unless a name says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from strandline.auditing.checks import Finding
from strandline.auditing.cluster import Observation
from strandline.ids import TopicPartition
from strandline.report.round_files import Moment
from strandline_lab.chaos.core.plan import Plan
from strandline_lab.report.events import Election, Reader, Sender


@dataclass(frozen=True, slots=True)
class RoundData:
    """A whole round. `plan` is None if it cannot be read, `findings` if the round was not judged."""

    name: str
    plan: Plan | None = None
    command: str = ""
    """The command that started it, if known."""
    moments: tuple[Moment, ...] = ()
    observations: tuple[Observation, ...] = ()
    elections: tuple[Election, ...] = ()
    senders: tuple[Sender, ...] = ()
    readers: tuple[Reader, ...] = ()
    findings: tuple[Finding, ...] | None = None
    staleness: Mapping[TopicPartition, float] = field(default_factory=dict)
    """The longest time in ms from a record's acknowledgement until a reader by assignment received it."""
    unread: tuple[str, ...] = ()
    """Sentences that name what could not be read."""
