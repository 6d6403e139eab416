"""What clients and controllers did in a run, as plain values. Times are milliseconds since one moment."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from strandline.ids import TopicPartition


class SendOutcome(Enum):
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
    outcome: SendOutcome
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
