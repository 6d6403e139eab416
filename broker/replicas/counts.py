"""What a broker counts while it works: plain numbers, changed on the event loop, for its metrics to read.

They belong to the process: they outlive ZooKeeper sessions, leaderships and replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Set, Sized
from dataclasses import dataclass, field
from typing import Final

from strandline.adapters.telemetry.metrics import Histogram
from strandline.config import METRICS_TOPICS_MAX

OTHERS: Final = "__others"
"""Stands for all topics beyond the bound. No topic has this name: only the system's own begin like this."""


@dataclass(slots=True)
class BrokerCounts:
    """Of all topics together."""

    isr_shrinks: int = 0
    isr_expands: int = 0
    elections_ms: Histogram = field(default_factory=Histogram)
    """Of elections that this broker won: from the notice of the vacancy to the claim that succeeded."""
    unclean_elections: int = 0

    def elected(self, noticed_ms: float, *, unclean: bool) -> None:
        """This broker won an election, so long after it noticed the vacancy."""
        self.elections_ms.observe(noticed_ms)
        self.unclean_elections += unclean

    def isr_changed(self, left: Sized, joined: Sized) -> None:
        """A leader here changed its ISR; as in Kafka one change counts once, however many leave."""
        self.isr_shrinks += bool(left)
        self.isr_expands += bool(joined)


@dataclass(slots=True)
class TopicCounts:
    """Of one topic. A replica has a hand on its topic's, so that counting is one addition."""

    broker: BrokerCounts = field(default_factory=BrokerCounts)
    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    produce_requests: int = 0
    """Batches that were appended, or known already."""
    produce_failures: int = 0
    """Batches that were answered with an error, whether they were appended or not."""
    replication_bytes_in: int = 0
    replication_bytes_out: int = 0
    reassignment_bytes_out: int = 0
    """Of the bytes out, those to replicas that a reassignment adds."""
    truncated_records: int = 0
    lost_records: int = 0
    """Of the truncated ones, those that had been committed."""


class Counts:
    """Of one broker process."""

    def __init__(self, topics_max: int = METRICS_TOPICS_MAX) -> None:
        self.broker = BrokerCounts()
        self.others = TopicCounts(self.broker)
        """Topics beyond the bound, and what is asked of topics that are not here."""
        self._topics: dict[str, TopicCounts] = {}
        self._topics_max = topics_max

    def __iter__(self) -> Iterator[tuple[str, TopicCounts]]:
        yield from self._topics.items()
        yield OTHERS, self.others

    def of(self, topic: str) -> TopicCounts:
        """Where this topic is counted."""
        found = self._topics.get(topic)
        if found is None:
            if len(self._topics) >= self._topics_max:
                return self.others
            found = self._topics[topic] = TopicCounts(self.broker)
        return found

    def keep(self, topics: Set[str]) -> None:
        """Forget topics that are not here any more: others may have their place."""
        for gone in self._topics.keys() - topics:
            del self._topics[gone]
