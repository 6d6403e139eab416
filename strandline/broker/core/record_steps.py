"""The steps of a record's way through a cluster, and their lines in the logs of brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from strandline.vocabulary.parsing.typed_json import integer, text

EVENT: Final = "a step of a record"
"""The `event` of such a line."""


class Step(StrEnum):
    """In the order in which they happen to a record with acks=all. SENT, STORED, REPLICATED and COMMITTED
    happen once for each follower, FETCHED for each read."""

    RECEIVED = "received"
    """Its leader begins with its batch."""
    APPENDED = "appended"
    """It is in the leader's log."""
    SENT = "sent"
    """It is in a message to a follower."""
    STORED = "stored"
    """It is in a follower's log."""
    REPLICATED = "replicated"
    """The leader knows that a follower has it."""
    COMMITTED = "committed"
    """It is below the broker's high watermark: at its leader, readers may have it."""
    ANSWERED = "answered"
    """Its producer's request has its outcome."""
    FETCHED = "fetched"
    """It is in an answer to a reader."""


@dataclass(frozen=True, slots=True)
class RecordStep:
    """A step of one record at one broker."""

    step: Step
    topic: str
    partition: int
    offset: int
    broker: int
    epoch: int
    """The leader epoch that the broker knows."""
    follower: int | None = None
    """The broker that it is sent to, or that has it."""
    acks: int | None = None
    """What the producer asked for."""
    error: str | None = None
    """Why the producer's request failed."""
    earlier_us: int | None = None
    """How long before its line the step was."""

    def fields(self) -> dict[str, Any]:
        """For a line of the log: what is None is left out."""
        optional = {
            "follower": self.follower,
            "acks": self.acks,
            "error": self.error,
            "earlier_us": self.earlier_us,
        }
        return {
            "step": self.step.value,
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "broker": self.broker,
            "epoch": self.epoch,
        } | {name: value for name, value in optional.items() if value is not None}

    @classmethod
    def load(cls, line: Mapping[str, Any]) -> RecordStep:
        """The step of a line. Raises KeyError, TypeError, ValueError for another one."""

        def optional(name: str) -> int | None:
            return integer(line[name]) if name in line else None

        return cls(
            Step(text(line["step"])),
            text(line["topic"]),
            integer(line["partition"], least=0),
            integer(line["offset"], least=0),
            integer(line["broker"], least=0),
            integer(line["epoch"]),
            optional("follower"),
            optional("acks"),
            text(line["error"]) if "error" in line else None,
            optional("earlier_us"),
        )
