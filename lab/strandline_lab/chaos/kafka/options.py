"""What a Kafka client of a round is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from strandline_lab.chaos.kafka.security import Certified


@dataclass(frozen=True, slots=True)
class Connection:
    """How a client connects, and the topic that it writes or reads."""

    bootstrap: str
    topic: str
    client_id: str
    certified: Certified | None = None
    """None: in plaintext."""

    @property
    def for_librdkafka(self) -> dict[str, Any]:
        """The settings with which a client connects."""
        shown = {} if self.certified is None else self.certified.for_librdkafka
        return {"bootstrap.servers": self.bootstrap, "client.id": self.client_id, **shown}

    @property
    def for_aiokafka(self) -> dict[str, Any]:
        """The same. Raises OSError if the files cannot be used."""
        shown = {} if self.certified is None else self.certified.for_aiokafka
        return {"bootstrap_servers": self.bootstrap, "client_id": self.client_id, **shown}


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
    """How a reader of assigned partitions reads. It asks for the high watermarks every `watermarks_s`."""

    watermarks_s: float


@dataclass(frozen=True, slots=True)
class Membership:
    """How a member of a group reads. It commits every `COMMIT_MS`, and what it has left in each rebalance."""

    group: str
    assignor: str
    session_timeout_ms: int


HEARTBEAT_MS: Final = 1_000
COMMIT_MS: Final = 1_000
