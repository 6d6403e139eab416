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
    """The result of sending a record."""

    ACKED = "acknowledged"
    FAILED = "failed"
    """It was certainly not appended."""
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
    """One record: when it was sent, and its outcome. `place` is known only if it was acknowledged."""

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
    """When one consumer received each record, and the error that ended it, if any."""

    name: str
    received_ms: tuple[int, ...]
    error: str = ""


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
