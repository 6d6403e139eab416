"""What an error of a Kafka producer says about its record."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import KafkaError

from strandline.errors import ErrorCode, Outcome
from strandline_lab.chaos.kafka.outcomes import REFUSALS, outcome_of, promise_broken

LOCAL = (KafkaError._MSG_TIMED_OUT, KafkaError._TRANSPORT, KafkaError._PURGE_INFLIGHT, KafkaError._TIMED_OUT)


@pytest.mark.parametrize("code", [*LOCAL, *ErrorCode])
def test_a_producer_that_tries_again_knows_nothing_of_a_failed_record(code: int) -> None:
    """CORRECTNESS H6: its last attempt was refused, and an earlier one may have been stored."""
    assert outcome_of(code, retries=True) is Outcome.UNKNOWN


@pytest.mark.parametrize("code", [*LOCAL, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_a_single_attempt_without_an_answer_is_unknown(code: int) -> None:
    """CORRECTNESS H6: so is NOT_LEADER_OR_FOLLOWER, which also answers batches of a leadership that ended."""
    assert outcome_of(code, retries=False) is Outcome.UNKNOWN


@pytest.mark.parametrize("code", REFUSALS)
def test_a_single_attempt_that_was_refused_was_not_stored(code: int) -> None:
    assert outcome_of(code, retries=False) is not Outcome.UNKNOWN


@pytest.mark.parametrize("code", [KafkaError._FATAL, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER])
@pytest.mark.parametrize("event", ["failed", "error"])
def test_no_fault_explains_a_gap_in_the_sequence_of_an_idempotent_producer(event: str, code: int) -> None:
    """CORRECTNESS T12: brokers keep a producer's state over every change of leader."""
    line = {
        "event": event,
        "seq": 7,
        "topic": "swell",
        "record": 3,
        "code": code,
        "outcome": "unknown outcome",
    }
    assert promise_broken(json.dumps(line).encode())


@pytest.mark.parametrize(
    "line",
    [
        b'{"event": "failed", "code": -192}',
        b'{"event": "acked", "code": 45}',
        b'{"event": "failed", "co',
        b"",
    ],
)
def test_other_lines_break_no_promise(line: bytes) -> None:
    assert not promise_broken(line)
