"""InitProducerId: an identity for an idempotent producer."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.table.rows import (
    ERROR,
    INT16,
    INT32,
    INT64,
    STRING,
    Struct,
    throttle,
)


class InitProducerIdRequest(NamedTuple):
    """`producer_id` and `epoch`: the identity that the client had; -1 and -1 for none."""

    transactional_id: str | None
    timeout_ms: int = 60_000
    """Of its transactions."""
    producer_id: int = -1
    epoch: int = -1


class InitProducerIdAnswer(NamedTuple):
    producer_id: int = -1
    producer_epoch: int = -1
    error: int = 0


REQUEST: Final = Struct(
    InitProducerIdRequest,
    STRING("transactional_id", nullable=0),
    INT32("transaction_timeout_ms", "timeout_ms"),
    INT64("producer_id", since=3),
    INT16("producer_epoch", "epoch", since=3),
)
ANSWER: Final = Struct(InitProducerIdAnswer, throttle(), ERROR, INT64("producer_id"), INT16("producer_epoch"))
