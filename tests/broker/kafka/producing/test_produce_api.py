"""What Produce answers to Kafka clients."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from strandline.broker.kafka.errors import KafkaCode
from strandline.broker.kafka.handlers.producing.produce import ProduceApi
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.produce import PartitionRecords, ProduceAnswer, ProduceRequest
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.errors import ErrorCode
from strandline.ids import ACKS_ALL
from strandline.records import encode_batch
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.kafka.support.asking import NO_HINTS, called, log_handlers, no_rights
from tests.broker.support.replicas import CLOCK, NAME, batch
from tests.broker.support.seat import Seat, seated

CALL = called(apis.PRODUCE, 9)


def request(records: bytes, *, acks: int = ACKS_ALL) -> ProduceRequest:
    one = PartitionRecords(NAME.partition, memoryview(records))
    return ProduceRequest(acks, 1_000, (OfTopic(NAME.topic, (one,)),))


def api_of(seat: Seat) -> ProduceApi:
    handlers = log_handlers(seat)
    return ProduceApi(handlers, no_rights(seat), NO_HINTS, CLOCK)


async def test_a_producer_learns_which_records_lack_a_key(tmp_path: Path) -> None:
    """Java's and librdkafka's producers then blame only these (KIP-467)."""
    answers: list[ProduceAnswer] = []
    keys = (b"a", None, b"b", None)
    async with seated(tmp_path) as seat:
        seat.lead(5)
        seat.replica.log.reconfigure(TopicConfig(cleanup_policy="compact"))
        records = encode_batch([(key, b"", (), 0) for key in keys])
        assert api_of(seat).begin(request(records), CALL, answers.append)
    ((found,),) = [topic.partitions for topic in answers[0].topics]
    assert (found.error, [each.position for each in found.wrong]) == (ErrorCode.INVALID_RECORD, [1, 3])
    assert found.message and all(each.message for each in found.wrong)
    assert found.log_start_offset == 0, "as from Kafka"


async def test_a_producer_learns_which_times_are_wrong_and_which_the_leader_gave(tmp_path: Path) -> None:
    """Microseconds in place of milliseconds are refused, unless the leader gives the times."""
    answers: list[ProduceAnswer] = []
    now_ms = CLOCK.wall_ms()
    records = encode_batch([(None, b"", (), time) for time in (now_ms, now_ms * 1_000)])
    async with seated(tmp_path) as seat:
        seat.lead(5)
        leadership = seat.lead_alone(6)
        leadership.core.assign(seat.replica.assignment, 1, CLOCK.monotonic())
        for config in (TopicConfig(), TopicConfig(message_timestamp_type="LogAppendTime")):
            seat.replica.log.reconfigure(config)
            assert api_of(seat).begin(request(records), CALL, answers.append)
    refused, taken = [found for answer in answers for topic in answer.topics for found in topic.partitions]
    assert (refused.error, refused.append_time_ms) == (ErrorCode.INVALID_TIMESTAMP, -1)
    assert [each.position for each in refused.wrong] == [1]
    assert (taken.error, taken.base_offset) == (0, 0)
    assert now_ms <= taken.append_time_ms <= CLOCK.wall_ms()


async def test_a_producer_that_the_log_does_not_know_goes_on_with_any_sequence(tmp_path: Path) -> None:
    """KIP-360: its topic was made anew, or its records are gone. From there on its sequences have no gap."""
    answers: list[ProduceAnswer] = []
    async with seated(tmp_path) as seat:
        seat.lead(5)
        leadership = seat.lead_alone(6)
        leadership.core.assign(seat.replica.assignment, 1, CLOCK.monotonic())
        api = api_of(seat)
        first, second, later = (request(batch("x", producer=(7, sequence))) for sequence in (57, 58, 60))
        for each in (first, second, first, later):
            assert api.begin(each, CALL, answers.append)
    found = [each for answer in answers for topic in answer.topics for each in topic.partitions]
    assert [each.error for each in found] == [0, 0, 0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert [each.base_offset for each in found] == [0, 1, 0, -1]


@pytest.mark.parametrize("began", [0, 57])
async def test_a_batch_behind_one_that_was_refused_is_out_of_order(tmp_path: Path, began: int) -> None:
    """CORRECTNESS K2: if it were taken, the refused batch would be lost as a duplicate of what is older."""
    answers: list[ProduceAnswer] = []
    first, second = (request(batch("x", producer=(7, sequence))) for sequence in (began, began + 1))
    stranger = request(batch("x", producer=(8, 1)))
    async with seated(tmp_path) as seat:
        seat.lead(5)
        api = api_of(seat)
        leadership = seat.lead_alone(6)
        for insync, requests in ((2, (first, second)), (1, (second, stranger, first, second))):
            leadership.core.assign(seat.replica.assignment, insync, CLOCK.monotonic())
            for each in requests:
                assert api.begin(each, CALL, answers.append)
    assert [found.error for answer in answers for topic in answer.topics for found in topic.partitions] == [
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        0,
        0,
        0,
    ]


async def test_a_batch_with_acks_1_is_appended_at_once_by_a_leader_that_is_sure(tmp_path: Path) -> None:
    """Then a connection has several such requests in flight. One that is not sure has to ask first (E1)."""
    answers: list[ProduceAnswer] = []
    async with seated(tmp_path) as seat:
        api = api_of(seat)
        seat.lead(5)
        assert not api.begin(request(batch("x"), acks=1), CALL, answers.append), "its followers are silent"
        assert (seat.replica.log.log_end_offset, answers) == (0, [])
        seat.lead_alone(6)
        assert api.begin(request(batch("x"), acks=1), CALL, answers.append)
    ((found,),) = [topic.partitions for topic in answers[0].topics]
    assert (found.error, found.base_offset) == (0, 0)


async def test_old_formats_are_refused_with_the_reason(tmp_path: Path) -> None:
    """With an error that clients take for fatal. Nothing is appended."""
    answers: list[ProduceAnswer] = []
    old = replace(CALL, header=CALL.header._replace(version=2))
    async with seated(tmp_path) as seat:
        seat.lead_alone(6)
        assert api_of(seat).begin(request(batch("x")), old, answers.append)
        assert seat.replica.log.log_end_offset == 0
    (found,) = [each for answer in answers for topic in answer.topics for each in topic.partitions]
    assert found.error == KafkaCode.UNSUPPORTED_VERSION
    assert "formats 0 and 1" in str(found.message)


async def test_a_batch_without_the_mark_is_in_no_transaction(tmp_path: Path) -> None:
    """Under a transactional id too, as in Kafka."""
    answers: list[ProduceAnswer] = []
    async with seated(tmp_path) as seat:
        seat.lead_alone(6)
        plain = request(batch("x"), acks=1)._replace(transactional_id="t")
        assert api_of(seat).begin(plain, CALL, answers.append)
        assert (seat.replica.log.log_end_offset, len(seat.replica.log.producers.transactions)) == (1, 0)
    ((found,),) = [topic.partitions for topic in answers[0].topics]
    assert found.error == 0
