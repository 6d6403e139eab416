"""The calls of the service `Transactions`."""

from __future__ import annotations

from strandline.adapters.codecs import transactions as rpcs
from strandline.broker.transactions.handlers import TransactionHandlers
from strandline.broker.transactions.log_tools import LogTools
from strandline.broker.transactions.marker_writes import MarkerWrites
from strandline.serving.serve import CallRow, Row


def transaction_rows(handlers: TransactionHandlers, logs: LogTools) -> list[Row]:
    """For every listener of one broker."""
    return [
        CallRow(rpcs.FIND_TRANSACTION_COORDINATOR.served, handlers.find_coordinator),
        CallRow(rpcs.INIT_TRANSACTIONS.served, handlers.init),
        CallRow(rpcs.END_TRANSACTION.served, handlers.end),
        CallRow(rpcs.DESCRIBE_TRANSACTION.served, handlers.describe),
        CallRow(rpcs.LIST_TRANSACTIONS.served, handlers.list),
        CallRow(rpcs.ABORT_TRANSACTION.served, handlers.abort),
        CallRow(rpcs.DESCRIBE_LOGS.served, logs.describe),
        CallRow(rpcs.ABORT_IN_LOG.served, logs.abort),
    ]


def member_rows(handlers: TransactionHandlers, writes: MarkerWrites) -> list[Row]:
    """For the listener that cluster members use."""
    return [
        CallRow(rpcs.WRITE_MARKERS.served, writes.write),
        CallRow(rpcs.ADMIT_PARTITIONS.served, handlers.admit),
    ]
