"""The limits of a coordinator. Each check raises the typed error that names the value and the bound."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.broker.core.coordinators.names import wrong_text
from strandline.config.limits import TRANSACTIONAL_ID_LENGTH_MAX
from strandline.config.services.broker import BrokerSettings
from strandline.errors import InvalidRequest, InvalidTransactionTimeout


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """The settings of a broker that its coordinators use."""

    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transactional_ids_max: int
    """Of one coordinator, that is of one partition of `__transaction_state`."""
    transaction_partitions_max: int
    """Of one transaction. Its record has all of them, and must fit a batch."""
    open_partitions_max: int
    """Of all open and ending transactions of one coordinator: its memory."""

    @classmethod
    def of(cls, settings: BrokerSettings) -> TransactionLimits:
        return cls(
            transaction_max_timeout_ms=settings.transaction_max_timeout_ms,
            transactional_id_expiration_ms=settings.transactional_id_expiration_ms,
            transactional_ids_max=settings.transactional_ids_max,
            transaction_partitions_max=settings.transaction_partitions_max,
            open_partitions_max=settings.transaction_open_partitions_max,
        )


def check_transactional_id(transactional_id: str) -> None:
    """Raises InvalidRequest, as Kafka does for an empty one."""
    most = TRANSACTIONAL_ID_LENGTH_MAX
    wrong = "is empty" if not transactional_id else wrong_text(transactional_id, most)
    if wrong is not None:
        raise InvalidRequest(f"transactional id {transactional_id[:most]!r} {wrong}", limit=most)


def check_timeout(timeout_ms: int, limits: TransactionLimits) -> None:
    """Raises InvalidTransactionTimeout."""
    most = limits.transaction_max_timeout_ms
    if not 1 <= timeout_ms <= most:
        raise InvalidTransactionTimeout(
            f"a transaction timeout of {timeout_ms} ms is not between 1 and {most} ms, which is "
            "transaction_max_timeout_ms",
            limit=most,
        )
