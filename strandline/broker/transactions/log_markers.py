"""Writes the ends of transactions to the logs that this broker leads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from strandline.broker.core.replication.produce_ticket import ProduceOutcome
from strandline.broker.replicas.replica import Replica
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.vocabulary.transactions import MarkerEntry

Done = Callable[[StrandlineError | None], None]


class LogMarkers:
    """Fulfils `MarkerWriter`. `replica` raises what refuses a partition."""

    def __init__(self, replica: Callable[[TopicPartition], Replica]) -> None:
        self._replica = replica

    def write(self, entry: MarkerEntry, done: Done, *, timeout_ms: int) -> None:
        """As `MarkerWriter.write`."""
        try:
            leadership = self._replica(entry.name).led()
            leadership.produce_marker(entry.marker, timeout_ms=timeout_ms, done=partial(_tell, done))
        except StrandlineError as error:
            done(error)


def _tell(done: Done, outcome: ProduceOutcome) -> None:
    done(outcome if isinstance(outcome, StrandlineError) else None)
