"""The transactions that a broker coordinates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from strandline.adapters.telemetry.metrics import Sample, counter, gauge
from strandline.broker.core.transactions.effects import EventKind
from strandline.broker.replicas.replica import Replica
from strandline.broker.transactions.transactions import Transactions
from strandline.vocabulary.transactions import TransactionState

IDS: Final = gauge(
    "strandline_transactional_ids",
    "Transactional ids that this broker coordinates, by state. One is Dead if one of its turns failed, or "
    "its record cannot be read, which needs investigation.",
    "state",
)
LOADING: Final = gauge(
    "strandline_transaction_partitions_loading",
    "Partitions of `__transaction_state` that are led here and whose transactions are not read yet: "
    "producers wait.",
)
OPEN: Final = gauge(
    "strandline_transaction_open_partitions",
    "Partitions of the transactions that are open or ending here.",
)
EVENTS: Final = counter(
    "strandline_transaction_events_total", "Transactions that began or ended here, by step.", "event"
)
LATE: Final = gauge(
    "kafka_server_replicamanager_partitionswithlatetransactionscount",
    "Partitions led here with a transaction that is open for longer than its coordinator allows, by five "
    "minutes: it hangs, or its coordinator is gone.",
)
LATE_MS: Final = 5 * 60_000
"""Beyond the longest timeout of a transaction, as in Kafka."""

TRANSACTION_METRICS: Final = (IDS, LOADING, OPEN, EVENTS, LATE)


def is_late(replica: Replica, now_ms: int, timeout_ms: int) -> bool:
    """Whether a transaction is open in the log that should have ended. `timeout_ms`: the longest one that a
    producer may ask for."""
    first = replica.log.producers.transactions.first
    return first is not None and now_ms - first.began_ms > timeout_ms + LATE_MS


def read_transactions(transactions: Transactions) -> Iterator[Sample]:
    found = transactions.count()
    for state in TransactionState:
        yield IDS.is_now(found[state], state.value)
    yield LOADING.is_now(transactions.loading)
    yield OPEN.is_now(transactions.open_partitions)
    for kind in EventKind:
        yield EVENTS.is_now(transactions.events[kind], kind.value)
