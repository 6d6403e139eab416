"""What Kafka clients learn of the replicas on one broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from strandline.broker.kafka.answers import ANSWER_BYTES_MAX, ENTRY_BYTES, AnswerSize
from strandline.broker.kafka.errors import KafkaCode
from strandline.broker.kafka.handlers.replicas import ReplicasApi
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.admin.replicas import (
    DeletedPartition,
    DeleteRecordsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    PartitionDeletion,
    PartitionSize,
)
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.errors import ErrorCode
from strandline.ids import LeaderEpoch, Offset
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.kafka.support.asking import called, log_handlers
from tests.broker.support.replicas import CLOCK, NAME, batch
from tests.broker.support.seat import Seat, seated

CALL = called(apis.DELETE_RECORDS, 2)
EPOCH = LeaderEpoch(4)


@dataclass
class Here:
    """Broker 2, which follows no broker yet and has one replica of three batches."""

    seat: Seat
    api: ReplicasApi


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Here]:
    async with seated(tmp_path) as seat:
        log = seat.replica.log
        log.appending.begin_epoch(EPOCH)
        for producer, sequence in ((7, 0), (8, 0), (7, 2)):
            records = batch("a", "b", producer=(producer, sequence))
            log.appending.as_leader(records, EPOCH, now_ms=CLOCK.wall_ms())
        handlers = log_handlers(seat)
        yield Here(seat, ReplicasApi(handlers, seat.manager))


async def test_a_follower_describes_its_producers_once_however_often_it_is_asked(here: Here) -> None:
    """CORRECTNESS X6: a small request does not make a large answer."""
    asked = (OfTopic(NAME.topic, (0, 0, 1, 0)), OfTopic(NAME.topic, (0,)))
    size = AnswerSize(CLOCK)
    (topic,) = (await here.api.producers(DescribeProducersRequest(asked), CALL, size)).topics
    known, unknown = topic.partitions
    found = {each.producer_id: each for each in known.producers}
    assert {number: each.last_sequence for number, each in found.items()} == {7: 3, 8: 1}
    assert all(each.producer_epoch == 0 and each.last_at_ms > 0 for each in found.values())
    assert (unknown.partition, unknown.error) == (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert unknown.message and not unknown.producers
    invalid = DescribeProducersRequest((OfTopic("a b", (0,)),))
    (topic,) = (await here.api.producers(invalid, CALL, size)).topics
    assert [each.error for each in topic.partitions] == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert size.bytes > 4 * ENTRY_BYTES  # two partitions, two producers


async def test_producers_of_many_partitions_do_not_make_an_answer_without_end(here: Here) -> None:
    """CORRECTNESS X6: each partition remembers up to 10,000 producers."""
    size = AnswerSize(CLOCK)
    await size.add(entries=ANSWER_BYTES_MAX // ENTRY_BYTES)
    asked = DescribeProducersRequest((OfTopic(NAME.topic, (0,)),))
    (topic,) = (await here.api.producers(asked, CALL, size)).topics
    (refused,) = topic.partitions
    assert (refused.error, refused.producers) == (ErrorCode.INVALID_REQUEST, ())


@pytest.mark.parametrize("named", [True, False])
async def test_a_log_that_lost_its_end_lags_behind_the_high_watermark(here: Here, named: bool) -> None:
    here.seat.replica.watermark_known = Offset(9)
    topics = (OfTopic(NAME.topic, (0, 0, 5)), OfTopic("other", (0,))) if named else None
    (found,) = (await here.api.log_dirs(DescribeLogDirsRequest(topics), CALL)).directories
    size = PartitionSize(0, here.seat.replica.log.size_bytes, lag=3)
    assert found.topics == (OfTopic(NAME.topic, (size,)),)
    assert found.path == str(here.seat.manager.folder.path)
    assert 0 < found.free_bytes <= found.total_bytes


async def test_a_replica_that_is_being_copied_lags_behind_what_its_leader_has_committed(here: Here) -> None:
    """The leader tells its high watermark with the first records, long before the last ones arrive."""
    here.seat.replica.leader_watermark = Offset(1_000)
    (found,) = (await here.api.log_dirs(DescribeLogDirsRequest(None), CALL)).directories
    (topic,) = found.topics
    (size,) = topic.partitions
    assert size.lag == 1_000 - here.seat.replica.log.log_end_offset


async def test_a_disk_that_does_not_answer_hides_no_sizes(here: Here) -> None:
    here.seat.manager.folder.path = Path("/nowhere")
    (found,) = (await here.api.log_dirs(DescribeLogDirsRequest(None), CALL)).directories
    assert (found.total_bytes, found.free_bytes, len(found.topics)) == (-1, -1, 1)


async def test_other_topics_have_no_size_here(here: Here) -> None:
    asked = DescribeLogDirsRequest((OfTopic("other", (0,)),))
    (found,) = (await here.api.log_dirs(asked, CALL)).directories
    assert found.topics == ()


async def test_only_the_leader_deletes(here: Here) -> None:
    request = DeleteRecordsRequest((OfTopic(NAME.topic, (PartitionDeletion(0, 2),)),), 1_000)
    (topic,) = (await here.api.delete_records(request, CALL)).topics
    assert topic.partitions == (DeletedPartition(0, ErrorCode.NOT_LEADER_OR_FOLLOWER),)


async def test_records_of_a_compacted_topic_are_kept_by_its_policy(here: Here) -> None:
    here.seat.lead(EPOCH + 1)
    here.seat.replica.raise_watermark(Offset(6))
    here.seat.replica.config = TopicConfig(cleanup_policy="compact")
    request = DeleteRecordsRequest((OfTopic(NAME.topic, (PartitionDeletion(0, 3),)),), 1_000)
    (topic,) = (await here.api.delete_records(request, CALL)).topics
    assert topic.partitions == (DeletedPartition(0, KafkaCode.POLICY_VIOLATION),)
    assert here.seat.replica.log.log_start_offset == 0


async def test_a_client_that_does_not_wait_learns_that_the_deletion_may_not_be_complete(here: Here) -> None:
    """CORRECTNESS H9: no other replica has said yet that its log starts there too."""
    here.seat.lead(EPOCH + 1)
    here.seat.replica.raise_watermark(Offset(6))
    request = DeleteRecordsRequest((OfTopic(NAME.topic, (PartitionDeletion(0, 3),)),), 0)
    (topic,) = (await here.api.delete_records(request, CALL)).topics
    assert topic.partitions == (DeletedPartition(0, ErrorCode.REQUEST_TIMED_OUT),)
    assert here.seat.replica.log.log_start_offset == 3
