"""Shows transactions as JSON. Pure.

Times are milliseconds; `started_ms` and `began_ms` since the Unix epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline.report.text.partition_names import by_topic

if TYPE_CHECKING:
    from strandline.client.admin.transactions import HangingTransaction, TransactionDescription
    from strandline.vocabulary.transactions import ListedTransaction


ID_SHOWN_MAX: Final = 80
"""Of a transactional id in a table; JSON has all of its up to 1,024 characters."""


def shortened(transactional_id: str) -> str:
    """An id for a row of a table."""
    if len(transactional_id) <= ID_SHOWN_MAX:
        return transactional_id
    return transactional_id[: ID_SHOWN_MAX - 1] + "…"


def since(at_ms: int, now_ms: int) -> int | None:
    """The time since then; None: it has no begin."""
    return None if at_ms < 0 else max(0, now_ms - at_ms)


def listed_json(listed: ListedTransaction, now_ms: int) -> dict[str, Any]:
    """The shape of `transaction list -o json` (docs/use/cli.md)."""
    return {
        "transactional_id": listed.transactional_id,
        "producer_id": listed.producer_id,
        "state": listed.state.value,
        "started_ms": None if listed.started_ms < 0 else listed.started_ms,
        "open_ms": since(listed.started_ms, now_ms),
    }


def described_json(description: TransactionDescription, now_ms: int) -> dict[str, Any]:
    """The shape of `transaction describe -o json`."""
    found, coordinator = description.transaction, description.coordinator
    return {
        "transactional_id": found.transactional_id,
        "state": found.state.value,
        "producer_id": found.producer.producer_id,
        "producer_epoch": found.producer.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "started_ms": None if found.started_ms < 0 else found.started_ms,
        "open_ms": since(found.started_ms, now_ms),
        "coordinator": {"id": coordinator.id, "host": coordinator.host, "port": coordinator.port},
        "partitions": by_topic(found.partitions),
    }


def hanging_json(hanging: HangingTransaction, now_ms: int) -> dict[str, Any]:
    """The shape of `transaction find-hanging -o json`."""
    opened = hanging.opened
    return {
        "topic": hanging.name.topic,
        "partition": hanging.name.partition,
        "start_offset": opened.first_offset,
        "producer_id": opened.producer.producer_id,
        "producer_epoch": opened.producer.producer_epoch,
        "began_ms": opened.began_ms,
        "open_ms": since(opened.began_ms, now_ms),
    }


def abort_command(hanging: HangingTransaction) -> str:
    """The arguments that abort it."""
    return (
        f"transaction abort --topic {hanging.name.topic} --partition {hanging.name.partition} "
        f"--start-offset {hanging.opened.first_offset}"
    )
