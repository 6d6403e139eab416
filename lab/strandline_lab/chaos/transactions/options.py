"""What a client with transactions is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from strandline_lab.chaos.kafka.options import Connection

TIMEOUT_MS: Final = 10_000
"""Of each transaction: shorter than a round, longer than most faults."""
COMMITTED_PART: Final = 3 / 4
"""Of all transactions that could be committed. The others are aborted."""
RECORDS_MAX: Final = 20
"""Records of one transaction of a producer."""
INPUTS_MAX: Final = 200
"""Records of one transaction of a processor: one that is behind makes fewer and larger ones."""
COLLECT_S: Final = 0.25
"""How long a processor collects the inputs of one transaction at most."""


@dataclass(frozen=True, slots=True)
class Transacting:
    """A producer. `partitions`: those that it sends to, one after the other; `rate`: records a second."""

    connection: Connection
    """Its topic is that of the outputs."""
    transactional_id: str
    partitions: int
    rate: float


@dataclass(frozen=True, slots=True)
class Processing:
    """A member of `group` that makes one output of each record of `source`, a topic."""

    producing: Transacting
    source: str
    group: str
    session_timeout_ms: int


class Lots:
    """The choices of one client; the same name makes the same ones."""

    def __init__(self, name: str) -> None:
        self._random = Random(name)

    def records(self) -> int:
        """How many records the next transaction has."""
        return self._random.randint(1, RECORDS_MAX)

    def commits(self) -> bool:
        return self._random.random() < COMMITTED_PART
