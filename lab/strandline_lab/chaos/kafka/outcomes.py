"""What a Kafka producer's error says about its record, and about the broker. Pure.

librdkafka keeps to itself whether a record that failed may have been stored, and aiokafka does not know. A
producer that tries again reports its last error, and an earlier attempt may have been stored. So only the
refusal of a single attempt says that nothing was.
"""

from __future__ import annotations

import json
from typing import Final

from strandline.errors import ErrorCode, Outcome

REFUSALS: Final = {
    ErrorCode.MESSAGE_TOO_LARGE: Outcome.FATAL,
    ErrorCode.INVALID_TOPIC_EXCEPTION: Outcome.FATAL,
    ErrorCode.NOT_ENOUGH_REPLICAS: Outcome.RETRIABLE,
    ErrorCode.INVALID_RECORD: Outcome.FATAL,
}
"""A broker answers with these before it appends anything."""


FATAL_OF_LIBRDKAFKA: Final = -150
BROKEN_PROMISES: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        FATAL_OF_LIBRDKAFKA,
    }
)
"""With these an idempotent producer learns that a broker lost what it had acknowledged, or took a stranger's
batch for its own. No fault of a round is a reason for them."""


def outcome_of(code: int, *, retries: bool) -> Outcome:
    """`code` is Kafka's number, or a negative one of the library's own: a timeout, a broken connection.
    `retries`: the producer tries again."""
    if retries:
        return Outcome.UNKNOWN
    return next((outcome for refusal, outcome in REFUSALS.items() if refusal == code), Outcome.UNKNOWN)


def promise_broken(line: bytes) -> bool:
    """True for a line of a producer's history that reports such an error. A killed producer may have left
    half a line, which reports nothing."""
    try:
        fields = json.loads(line)
    except ValueError:
        return False
    return fields.get("event") in ("failed", "error") and fields.get("code") in BROKEN_PROMISES
