"""ListTransactions and DescribeTransactions."""

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
    row,
    throttle,
)
from strandline.broker.kafka.wire.topics import Topics, topics

# --- ListTransactions -------------------------------------------------------------------------


class ListTransactionsRequest(NamedTuple):
    """Only transactions in one of these states, of one of these producers, that are open for longer than
    `duration_ms`, and whose id the pattern matches; empty, negative and None: all."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    duration_ms: int = -1
    pattern: str | None = None


class ListedState(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


class ListTransactionsAnswer(NamedTuple):
    """`unknown_states`: those of the request that no transaction can have."""

    unknown_states: tuple[str, ...] = ()
    transactions: tuple[ListedState, ...] = ()
    error: int = 0


LIST_REQUEST: Final = Struct(
    ListTransactionsRequest,
    row("state_filters", Array(STRING), "states"),
    row("producer_id_filters", Array(INT64), "producer_ids"),
    INT64("duration_filter", "duration_ms", since=1),
    STRING("transactional_id_pattern", "pattern", since=2, nullable=2),
)
_LISTED: Final = Struct(
    ListedState, STRING("transactional_id"), INT64("producer_id"), STRING("transaction_state", "state")
)
LIST_ANSWER: Final = Struct(
    ListTransactionsAnswer,
    throttle(),
    ERROR,
    row("unknown_state_filters", Array(STRING), "unknown_states"),
    row("transaction_states", Array(_LISTED, large=True), "transactions"),
)


# --- DescribeTransactions ---------------------------------------------------------------------


class DescribeTransactionsRequest(NamedTuple):
    transactional_ids: tuple[str, ...]


class DescribedState(NamedTuple):
    """With an error, only the id means something."""

    transactional_id: str
    error: int = 0
    state: str = ""
    timeout_ms: int = 0
    started_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: Topics[int] = ()


class DescribeTransactionsAnswer(NamedTuple):
    transactions: tuple[DescribedState, ...]


DESCRIBE_REQUEST: Final = Struct(DescribeTransactionsRequest, row("transactional_ids", Array(STRING)))
_DESCRIBED: Final = Struct(
    DescribedState,
    ERROR,
    STRING("transactional_id"),
    STRING("transaction_state", "state"),
    INT32("transaction_timeout_ms", "timeout_ms"),
    INT64("transaction_start_time_ms", "started_ms"),
    INT64("producer_id"),
    INT16("producer_epoch"),
    topics(INT32, topic="topic"),
)
DESCRIBE_ANSWER: Final = Struct(
    DescribeTransactionsAnswer,
    throttle(),
    row("transaction_states", Array(_DESCRIBED, large=True), "transactions"),
)
