"""What a Kafka producer's error says about its record. Pure.

librdkafka keeps to itself whether a record that failed may have been stored, and aiokafka does not know. A
producer that tries again reports its last error, and an earlier attempt may have been stored. So only the
refusal of a single attempt says that nothing was.
"""

from __future__ import annotations

from typing import Final

from strandline.errors import ErrorCode, Outcome

REFUSALS: Final = {
    ErrorCode.MESSAGE_TOO_LARGE: Outcome.FATAL,
    ErrorCode.INVALID_TOPIC_EXCEPTION: Outcome.FATAL,
    ErrorCode.NOT_ENOUGH_REPLICAS: Outcome.RETRIABLE,
    ErrorCode.INVALID_RECORD: Outcome.FATAL,
}
"""A broker answers with these before it appends anything."""


def outcome_of(code: int, *, retries: bool) -> Outcome:
    """`code` is Kafka's number, or a negative one of the library's own: a timeout, a broken connection.
    `retries`: the producer tries again."""
    if retries:
        return Outcome.UNKNOWN
    return next((outcome for refusal, outcome in REFUSALS.items() if refusal == code), Outcome.UNKNOWN)
