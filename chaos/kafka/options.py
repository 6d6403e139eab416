"""What a Kafka client of a round is asked for. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """Where a client writes or reads."""

    bootstrap: str
    topic: str
    client_id: str


@dataclass(frozen=True, slots=True)
class Produced:
    """What a producer sends. `rate`: records a second."""

    rate: float
    value_prefix: str
    acks: str
    delivery_timeout_ms: int

    def record(self, number: int) -> tuple[bytes | None, bytes]:
        """Key and value of a record."""
        return None, f"{self.value_prefix}{number}".encode()


@dataclass(frozen=True, slots=True)
class Reading:
    """How a reader reads. It reads the high watermarks every `watermarks_s`."""

    watermarks_s: float
