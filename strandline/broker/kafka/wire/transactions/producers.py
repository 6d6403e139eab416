"""AddPartitionsToTxn, AddOffsetsToTxn and EndTxn: a producer's transaction from its begin to its end."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.table.rows import (
    BOOL,
    ERROR,
    GROUP,
    INT16,
    INT32,
    INT64,
    STRING,
    Array,
    Inline,
    One,
    Struct,
    inline,
    row,
    throttle,
)
from strandline.broker.kafka.wire.topics import Topics, topics

BATCHES_SINCE: Final = 4
"""The first version of AddPartitionsToTxn that brokers send to each other, and clients do not (KIP-890)."""

# --- AddPartitionsToTxn -----------------------------------------------------------------------


class PartitionsOfTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    topics: Topics[int]
    verify_only: bool = False


class AddPartitionsRequest(NamedTuple):
    """One transaction before version 4, several from there on."""

    transactions: tuple[PartitionsOfTransaction, ...]


class PartitionAdded(NamedTuple):
    partition: int
    error: int = 0


class AddedToTransaction(NamedTuple):
    transactional_id: str
    topics: Topics[PartitionAdded]


class AddPartitionsAnswer(NamedTuple):
    """In the order of the request. `error` is for all of it; versions before 4 have no place for one."""

    results: tuple[AddedToTransaction, ...]
    error: int = 0


_ONE: Final = Struct(
    PartitionsOfTransaction,
    STRING("v3_and_below_transactional_id", "transactional_id"),
    INT64("v3_and_below_producer_id", "producer_id"),
    INT16("v3_and_below_producer_epoch", "producer_epoch"),
    topics(INT32, "v3_and_below_topics"),
)
_EACH: Final = Struct(
    PartitionsOfTransaction,
    STRING("transactional_id"),
    INT64("producer_id"),
    INT16("producer_epoch"),
    BOOL("verify_only"),
    topics(INT32),
)
ADD_PARTITIONS_REQUEST: Final = Struct(
    AddPartitionsRequest,
    row("transactions", Array(_EACH), since=BATCHES_SINCE),
    inline("transactions", One(Inline(_ONE)), until=BATCHES_SINCE - 1),
)
_ADDED: Final = Struct(
    PartitionAdded, INT32("partition_index", "partition"), INT16("partition_error_code", "error")
)
ADD_PARTITIONS_ANSWER: Final = Struct(
    AddPartitionsAnswer,
    throttle(),
    INT16("error_code", "error", since=BATCHES_SINCE),
    row(
        "results_by_transaction",
        Array(
            Struct(
                AddedToTransaction,
                STRING("transactional_id"),
                topics(_ADDED, "topic_results", partitions="results_by_partition"),
            )
        ),
        "results",
        since=BATCHES_SINCE,
    ),
    inline(
        "results",
        One(
            Inline(
                Struct(
                    AddedToTransaction,
                    STRING("transactional_id", since=BATCHES_SINCE, absent=""),
                    topics(_ADDED, "results_by_topic_v3_and_below", partitions="results_by_partition"),
                )
            )
        ),
        until=BATCHES_SINCE - 1,
    ),
)

# --- AddOffsetsToTxn --------------------------------------------------------------------------


class AddOffsetsRequest(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group: str


class AddOffsetsAnswer(NamedTuple):
    error: int = 0


_PRODUCER: Final = (STRING("transactional_id"), INT64("producer_id"), INT16("producer_epoch"))
ADD_OFFSETS_REQUEST: Final = Struct(AddOffsetsRequest, *_PRODUCER, GROUP)
ADD_OFFSETS_ANSWER: Final = Struct(AddOffsetsAnswer, throttle(), ERROR)

# --- EndTxn -----------------------------------------------------------------------------------

NEXT_EPOCH_SINCE: Final = 5
"""The first version of EndTxn whose client takes its next identity from the answer (KIP-890)."""


class EndTransactionRequest(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool


class EndTransactionAnswer(NamedTuple):
    error: int = 0
    producer_id: int = -1
    producer_epoch: int = -1


END_REQUEST: Final = Struct(EndTransactionRequest, *_PRODUCER, BOOL("committed", "commit"))
END_ANSWER: Final = Struct(
    EndTransactionAnswer,
    throttle(),
    ERROR,
    INT64("producer_id", since=NEXT_EPOCH_SINCE),
    INT16("producer_epoch", since=NEXT_EPOCH_SINCE),
)
