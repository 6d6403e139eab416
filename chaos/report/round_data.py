"""The data of a round as plain values. Times are milliseconds since 1970 unless a name says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from strandline.auditing.checks import Finding
from strandline.auditing.cluster import Observation
from strandline.chaos.core.plan import Plan
from strandline.chaos.evidence import Moment
from strandline.ids import TopicPartition


class Outcome(Enum):
    """How a record ended that was sent."""

    ACKED = "acknowledged"
    FAILED = "failed"
    """It is certain that it was not appended."""
    UNKNOWN = "unknown"
    """It failed, and may have been appended."""
    UNANSWERED = "unanswered"
    """Its producer ended before an answer came."""


@dataclass(frozen=True, slots=True)
class Election:
    """The election of `broker`; `unclean`: it was not in sync."""

    at_ms: int
    place: TopicPartition
    broker: int
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class Sending:
    """One record: when it was sent, and how it ended. `place` is known of acknowledged records only."""

    sent_ms: float
    outcome: Outcome
    ended_ms: float | None = None
    took_ms: float | None = None
    place: TopicPartition | None = None


@dataclass(frozen=True, slots=True)
class Sender:
    """The records of one producer, in the order of sending."""

    name: str
    sendings: tuple[Sending, ...]


@dataclass(frozen=True, slots=True)
class Reader:
    """When one consumer received each record, and the error that it ended with, if any."""

    name: str
    received_ms: tuple[int, ...]
    error: str = ""


@dataclass(frozen=True, slots=True)
class RoundData:
    """A whole round. `plan` is None if it cannot be read, `findings` if there was no search for any."""

    name: str
    plan: Plan | None = None
    command: str = ""
    """The command that began it, if it is known."""
    moments: tuple[Moment, ...] = ()
    observations: tuple[Observation, ...] = ()
    elections: tuple[Election, ...] = ()
    senders: tuple[Sender, ...] = ()
    readers: tuple[Reader, ...] = ()
    findings: tuple[Finding, ...] | None = None
    staleness: Mapping[TopicPartition, float] = field(default_factory=dict)
    """The longest time in ms from a record's acknowledgement until a reader by assignment received it."""
    unread: tuple[str, ...] = ()
    """Sentences about what could not be read."""
