"""Writes the ends of transactions to the logs that this broker leads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from strandline.broker.core.replication.produce_ticket import ProduceOutcome
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.replica import Replica
from strandline.errors import StrandlineError
from strandline.ids import OFFSETS_TOPIC, TopicPartition
from strandline.vocabulary.transactions import Marker, MarkerEntry

Done = Callable[[StrandlineError | None], None]


Marked = Callable[[Leadership, Marker], None]


class LogMarkers:
    """Fulfils `MarkerWriter`. `replica` raises what refuses a partition; `marked` is called for each marker
    that is committed, before the coordinator hears of it."""

    def __init__(self, replica: Callable[[TopicPartition], Replica], marked: Marked) -> None:
        self.replica = replica
        self._marked = marked

    def write(self, entry: MarkerEntry, done: Done, *, timeout_ms: int) -> None:
        """As `MarkerWriter.write`."""
        try:
            leadership = self.replica(entry.name).led()
            committed = partial(self._committed, leadership, entry, done)
            leadership.produce_marker(entry.marker, timeout_ms=timeout_ms, done=committed)
        except StrandlineError as error:
            done(error)

    def _committed(
        self, leadership: Leadership, entry: MarkerEntry, done: Done, outcome: ProduceOutcome
    ) -> None:
        if isinstance(outcome, StrandlineError):
            done(outcome)
            return
        if entry.name.topic == OFFSETS_TOPIC:
            self._marked(leadership, entry.marker)
        done(None)
