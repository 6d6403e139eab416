"""What a round left behind, as plain values. Times are ms since 1970 unless a name says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from strandline.chaos.core.plan import Plan
from strandline.ids import TopicPartition


class Outcome(Enum):
    """What became of a record that was sent."""

    ACKED = "acknowledged"
    FAILED = "failed"
    """It is certain that it was not appended."""
    UNKNOWN = "unknown"
    """It failed, and may have been appended."""
    UNANSWERED = "unanswered"
    """Its producer ended before it was told."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the timeline. What its event does not have is left at its default."""

    at_ms: int
    event: str
    fault: int = -1
    """Its place in the plan."""
    kind: str = ""
    who: tuple[str, ...] = ()
    detail: str = ""
    took_ms: float | None = None
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Observation:
    """What was said of a partition then. `leader` is -1 if there was none; `hw` None if nobody said."""

    at_ms: int
    observer: str
    place: TopicPartition
    leader: int
    epoch: int
    isr: frozenset[int]
    hw: int | None


@dataclass(frozen=True, slots=True)
class Election:
    """Who was elected; `unclean`: without having been in sync."""

    at_ms: int
    place: TopicPartition
    broker: int
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class Sending:
    """One record: when it was sent, and what became of it. `place` is known of acknowledged ones only."""

    sent_ms: float
    outcome: Outcome
    ended_ms: float | None = None
    took_ms: float | None = None
    place: TopicPartition | None = None


@dataclass(frozen=True, slots=True)
class Sender:
    """All that one producer sent, in its order."""

    name: str
    sendings: tuple[Sending, ...]


@dataclass(frozen=True, slots=True)
class Reader:
    """When one consumer received a record, for each record, and the error that it ended with, if it did."""

    name: str
    received_ms: tuple[int, ...]
    error: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """One finding."""

    check: str
    topic: str
    partition: int | None
    offset: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class Told:
    """A whole round. `plan` is None if it cannot be read, `findings` if nobody has looked for any."""

    name: str
    plan: Plan | None = None
    command: str = ""
    """What it was begun with, if that was written down."""
    moments: tuple[Moment, ...] = ()
    observations: tuple[Observation, ...] = ()
    elections: tuple[Election, ...] = ()
    senders: tuple[Sender, ...] = ()
    readers: tuple[Reader, ...] = ()
    findings: tuple[Found, ...] | None = None
    staleness: Mapping[TopicPartition, float] = field(default_factory=dict)
    """For how many ms a record was acknowledged, at most, until a reader by assignment had it."""
    unread: tuple[str, ...] = ()
    """What of the files could not be read, in words."""
