"""DeleteRecords, DescribeLogDirs and DescribeProducers."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.admin.replicas import (
    ActiveProducer,
    DeletedPartition,
    DeleteRecordsAnswer,
    DeleteRecordsRequest,
    DescribeLogDirsAnswer,
    DescribeLogDirsRequest,
    DescribeProducersAnswer,
    DescribeProducersRequest,
    LogDirectory,
    PartitionDeletion,
    PartitionProducers,
    PartitionSize,
)
from strandline.broker.kafka.wire.apis import DELETE_RECORDS, DESCRIBE_LOG_DIRS, DESCRIBE_PRODUCERS
from tests.broker.kafka.support.kio_codec import Values
from tests.broker.kafka.support.mapped.mapped import Mapped, by_topic, numbers_by_topic


def deletions_request(asked: Values, version: int) -> DeleteRecordsRequest:
    def deletion(p: Values) -> PartitionDeletion:
        return PartitionDeletion(p["partition_index"], p["offset"])

    return DeleteRecordsRequest(by_topic(asked["topics"], deletion), asked["timeout_ms"])


def deletions_answer(found: Values, version: int) -> DeleteRecordsAnswer:
    def deleted(p: Values) -> DeletedPartition:
        return DeletedPartition(p["partition_index"], p["error_code"], p["low_watermark"])

    return DeleteRecordsAnswer(by_topic(found["topics"], deleted))


def log_dirs_request(asked: Values, version: int) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest(numbers_by_topic(asked["topics"], "topic", "partitions"))


def log_dirs_answer(found: Values, version: int) -> DescribeLogDirsAnswer:
    def size(p: Values) -> PartitionSize:
        return PartitionSize(p["partition_index"], p["partition_size"], p["offset_lag"])

    def directory(each: Values) -> LogDirectory:
        space = each.get("total_bytes", -1), each.get("usable_bytes", -1)
        return LogDirectory(each["log_dir"], by_topic(each["topics"], size), *space)

    return DescribeLogDirsAnswer(tuple(map(directory, found["results"])))


def producers_request(asked: Values, version: int) -> DescribeProducersRequest:
    return DescribeProducersRequest(numbers_by_topic(asked["topics"], "name", "partition_indexes") or ())


def producers_answer(found: Values, version: int) -> DescribeProducersAnswer:
    def producer(p: Values) -> ActiveProducer:
        return ActiveProducer(p["producer_id"], p["producer_epoch"], p["last_sequence"], p["last_timestamp"])

    def partition(p: Values) -> PartitionProducers:
        producers = tuple(map(producer, p["active_producers"]))
        return PartitionProducers(p["partition_index"], p["error_code"], p["error_message"], producers)

    return DescribeProducersAnswer(by_topic(found["topics"], partition))


MAPPED: Final = (
    Mapped(DELETE_RECORDS, deletions_request, deletions_answer),
    Mapped(
        DESCRIBE_LOG_DIRS,
        log_dirs_request,
        log_dirs_answer,
        {"error_code": 0, "is_future_key": False},
    ),
    Mapped(
        DESCRIBE_PRODUCERS,
        producers_request,
        producers_answer,
        {"coordinator_epoch": -1, "current_txn_start_offset": -1},
    ),
)
