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
    constant,
    throttle,
)


class InitProducerIdRequest(NamedTuple):
    """The rest of a request, the identity that the client had, decides nothing here."""

    transactional_id: str | None


class InitProducerIdAnswer(NamedTuple):
    producer_id: int = -1
    producer_epoch: int = -1
    error: int = 0


REQUEST: Final = Struct(
    InitProducerIdRequest,
    STRING("transactional_id", nullable=0),
    constant("transaction_timeout_ms", INT32, 60_000),
    constant("producer_id", INT64, -1, since=3),
    constant("producer_epoch", INT16, -1, since=3),
)
ANSWER: Final = Struct(InitProducerIdAnswer, throttle(), ERROR, INT64("producer_id"), INT16("producer_epoch"))
