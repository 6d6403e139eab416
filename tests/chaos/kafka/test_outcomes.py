"""What an error of a Kafka producer says about its record."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from strandline.chaos.kafka.outcomes import REFUSALS, outcome_of
from strandline.errors import ErrorCode, Outcome

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
