"""What the clients of transactions did, and what they saw: plain values, which the judge compares."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from strandline.vocabulary.log import ProducerIdentity
from strandline_lab.auditing.transactions import Batch, Read

Reads = dict[int, list[Read]]
"""By partition, in the order of a reader's answers."""


@dataclass(slots=True)
class Attempt:
    """One transaction, as its producer knows it. It transforms the inputs from `begin` up to `end`, and
    commits `end` as its group's offset."""

    number: int
    owner: str
    """The transactional id."""
    producer: ProducerIdentity
    """NO_PRODUCER: only the log has it."""
    begin: int
    end: int
    sent: list[tuple[int, bytes]] = field(default_factory=list)
    """Partitions and values, in the order in which they were sent."""
    acked: dict[bytes, int] = field(default_factory=dict)
    """The offsets of values."""
    asked: bool | None = None
    """What it asked for, to commit or to abort; None: nothing."""
    asked_s: float = 0.0
    """When it asked first."""
    answered: bool = False
    """The answer said so."""

    @property
    def what(self) -> str:
        asked = {None: "no end", True: "commit", False: "abort"}[self.asked]
        answer = "answered" if self.answered else "not answered"
        return f"transaction {self.number} of {self.owner} ({self.producer}; {asked}, {answer})"


class Initialized(NamedTuple):
    """A transactional id was taken, or a producer got its next epoch."""

    owner: str
    producer: ProducerIdentity
    at_s: float


class SeenOffset(NamedTuple):
    """A group's offset, as an observer saw it."""

    observer: str
    owner: str
    offset: int


@dataclass(slots=True)
class History:
    """Everything that was seen in a run."""

    compacted: bool = False
    attempts: list[Attempt] = field(default_factory=list)
    initialized: list[Initialized] = field(default_factory=list)
    plain: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    """Records outside transactions that were acknowledged: partition and offset."""
    committed: dict[str, Reads] = field(default_factory=dict)
    """What each reader of committed records got."""
    uncommitted: dict[str, Reads] = field(default_factory=dict)
    offsets: list[SeenOffset] = field(default_factory=list)
    """In the order of each observer."""
    log: defaultdict[int, list[Batch]] = field(default_factory=lambda: defaultdict(list))
    """All of the log, in the end."""
    deleted: dict[int, int] = field(default_factory=dict)
    """By partition: the records below this offset may be deleted. The log was read before they were."""
    last: dict[str, int] = field(default_factory=dict)
    """Each owner's offset in the end."""

    def begin(self, owner: str, producer: ProducerIdentity, begin: int, end: int) -> Attempt:
        attempt = Attempt(len(self.attempts), owner, producer, begin, end)
        self.attempts.append(attempt)
        return attempt
