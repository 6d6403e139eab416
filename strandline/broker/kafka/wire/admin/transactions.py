"""ListTransactions and DescribeTransactions, of which there are none: the answers have no more than that."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.table.rows import (
    ERROR,
    INT16,
    INT32,
    INT64,
    STRING,
    Array,
    Struct,
    constant,
    row,
    throttle,
)

# --- ListTransactions -------------------------------------------------------------------------


class ListTransactionsRequest(NamedTuple):
    """Only transactions in one of these states; empty: in any."""

    states: tuple[str, ...]


class ListTransactionsAnswer(NamedTuple):
    """`unknown_states`: those of the request that no transaction can have."""

    unknown_states: tuple[str, ...]
    error: int = 0


LIST_REQUEST: Final = Struct(
    ListTransactionsRequest,
    row("state_filters", Array(STRING), "states"),
    constant("producer_id_filters", Array(INT64), ()),
    constant("duration_filter", INT64, -1, since=1),
    constant("transactional_id_pattern", STRING, None, since=2, nullable=2),
)
_LISTED: Final[Struct[str]] = Struct(
    None,
    STRING("transactional_id"),
    constant("producer_id", INT64, -1),
    constant("transaction_state", STRING, ""),
)
LIST_ANSWER: Final = Struct(
    ListTransactionsAnswer,
    throttle(),
    ERROR,
    row("unknown_state_filters", Array(STRING), "unknown_states"),
    constant("transaction_states", Array(_LISTED), ()),
)


# --- DescribeTransactions ---------------------------------------------------------------------


class DescribeTransactionsRequest(NamedTuple):
    transactional_ids: tuple[str, ...]


class TransactionRefusal(NamedTuple):
    transactional_id: str
    error: int


class DescribeTransactionsAnswer(NamedTuple):
    transactions: tuple[TransactionRefusal, ...]


DESCRIBE_REQUEST: Final = Struct(DescribeTransactionsRequest, row("transactional_ids", Array(STRING)))
_TOPIC: Final[Struct[str]] = Struct(None, STRING("topic"), constant("partitions", Array(INT32), ()))
_DESCRIBED: Final = Struct(
    TransactionRefusal,
    ERROR,
    STRING("transactional_id"),
    constant("transaction_state", STRING, ""),
    constant("transaction_timeout_ms", INT32, 0),
    constant("transaction_start_time_ms", INT64, 0),
    constant("producer_id", INT64, 0),
    constant("producer_epoch", INT16, 0),
    constant("topics", Array(_TOPIC), ()),
)
DESCRIBE_ANSWER: Final = Struct(
    DescribeTransactionsAnswer, throttle(), row("transaction_states", Array(_DESCRIBED), "transactions")
)
