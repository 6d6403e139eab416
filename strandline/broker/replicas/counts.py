"""Counters of a broker for its metrics: plain numbers, changed only on the event loop.

They belong to the process: they outlive ZooKeeper sessions, leaderships and replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Set, Sized
from dataclasses import dataclass, field
from typing import Final

from strandline.adapters.telemetry.metrics import Histogram
from strandline.config.limits import METRICS_TOPICS_MAX

OTHERS: Final = "__others"
"""Stands for all topics beyond the bound. Only the system's own names begin like this."""


@dataclass(slots=True)
class BrokerCounts:
    """Counts of all topics together."""

    isr_shrinks: int = 0
    isr_expands: int = 0
    elections_ms: Histogram = field(default_factory=Histogram)
    """Times of elections that this broker won: from the notice of the vacancy to the successful claim."""
    unclean_elections: int = 0

    def elected(self, noticed_ms: float, *, unclean: bool) -> None:
        """Counts an election that this broker won, with the time since it noticed the vacancy."""
        self.elections_ms.observe(noticed_ms)
        self.unclean_elections += unclean

    def isr_changed(self, left: Sized, joined: Sized) -> None:
        """Counts an ISR change of a leader here. As in Kafka it counts once, even if several members
        leave."""
        self.isr_shrinks += bool(left)
        self.isr_expands += bool(joined)


@dataclass(slots=True)
class TopicCounts:
    """Counts of one topic. Each replica holds its topic's counters, so that counting is one addition."""

    broker: BrokerCounts = field(default_factory=BrokerCounts)
    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    produce_requests: int = 0
    """Batches that were appended, or were duplicates."""
    produce_failures: int = 0
    """Batches that were answered with an error, appended or not."""
    fetch_requests: int = 0
    """Positions of consumers' fetches that were answered."""
    fetch_failures: int = 0
    """The part of these that was answered with an error."""
    replication_bytes_in: int = 0
    replication_bytes_out: int = 0
    reassignment_bytes_out: int = 0
    """The part of the bytes out that went to replicas that a reassignment adds."""
    truncated_records: int = 0
    lost_records: int = 0
    """The part of the truncated records that had been committed."""


class Counts:
    """Counts of one broker process."""

    def __init__(self, topics_max: int = METRICS_TOPICS_MAX) -> None:
        self.broker = BrokerCounts()
        self.others = TopicCounts(self.broker)
        """Counts of topics beyond the bound, and of requests for topics that are not here."""
        self._topics: dict[str, TopicCounts] = {}
        self._topics_max = topics_max

    def __iter__(self) -> Iterator[tuple[str, TopicCounts]]:
        yield from self._topics.items()
        yield OTHERS, self.others

    def of(self, topic: str) -> TopicCounts:
        """The counts of this topic."""
        found = self._topics.get(topic)
        if found is None:
            if len(self._topics) >= self._topics_max:
                return self.others
            found = self._topics[topic] = TopicCounts(self.broker)
        return found

    def keep(self, topics: Set[str]) -> None:
        """Drops the counts of topics that are not here now, which makes room for others."""
        for gone in self._topics.keys() - topics:
            del self._topics[gone]
