"""ListOffsets and OffsetForLeaderEpoch: which times are served, and which epochs are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.broker.kafka.errors import KafkaCode
from strandline.broker.kafka.handlers.offsets import OffsetsApi
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.offsets import (
    EpochEndsRequest,
    ListOffsetsRequest,
    OffsetAtTime,
    PartitionEpoch,
    PartitionEpochEnd,
    PartitionTime,
)
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.errors import ErrorCode
from tests.broker.kafka.support.asking import called, log_handlers
from tests.broker.support.replicas import NAME, write
from tests.broker.support.seat import Seat, seated

EPOCH, END = 6, 2
UNKNOWN_EPOCH = int(ErrorCode.UNKNOWN_LEADER_EPOCH)


def api_of(seat: Seat) -> OffsetsApi:
    """Of a broker that leads its replica, of two records, both committed."""
    write(seat.replica, 4, "a", "b")
    seat.lead(EPOCH)
    seat.commit(END)
    return OffsetsApi(log_handlers(seat))


async def test_times_that_are_not_served_are_refused_alone(tmp_path: Path) -> None:
    """Those of tiered storage."""
    times = (-1, -3, -2, -4, -5, 0)
    async with seated(tmp_path) as seat:
        api = api_of(seat)
        topic = await listed(api, *(PartitionTime(NAME.partition, -1, each) for each in times))
        refused = await listed(api, PartitionTime(NAME.partition, EPOCH + 1, -1))
    unserved = int(KafkaCode.UNSUPPORTED_VERSION)
    assert [each.error for each in topic.partitions] == [0, 0, 0, unserved, unserved, 0]
    assert [topic.partitions[number].offset for number in (0, 2, 5)] == [END, 0, 0]
    assert {each.leader_epoch for each in topic.partitions if each.error == 0} <= {EPOCH, 4}
    assert [each.error for each in refused.partitions] == [UNKNOWN_EPOCH], "KIP-101: it learns it at once"


async def listed(api: OffsetsApi, *wanted: PartitionTime, version: int = 7) -> OfTopic[OffsetAtTime]:
    asked = ListOffsetsRequest((OfTopic(NAME.topic, wanted),))
    (topic,) = (await api.list_offsets(asked, called(apis.LIST_OFFSETS, version))).topics
    return topic


@pytest.mark.parametrize(("version", "served"), [(7, ()), (8, (-4,)), (9, (-4, -5)), (11, (-4, -5, -6))])
async def test_times_of_tiered_storage_are_those_of_a_log_without_it(
    tmp_path: Path, version: int, served: tuple[int, ...]
) -> None:
    """As a broker of Kafka 4.4 answers: its local log is the whole one. Each time has its first version."""
    async with seated(tmp_path) as seat:
        api = api_of(seat)
        wanted = [PartitionTime(NAME.partition, -1, time) for time in (-4, -5, -6, -7)]
        topic = await listed(api, *wanted, version=version)
        stale = await listed(api, PartitionTime(NAME.partition, EPOCH + 1, -5), version=11)
    start, none = (0, 0, EPOCH), (0, -1, -1)
    answers = {-4: start, -5: none, -6: none}
    refused = (int(KafkaCode.UNSUPPORTED_VERSION), -1, -1)
    assert [(each.error, each.offset, each.leader_epoch) for each in topic.partitions] == [
        answers[time] if time in served else refused for time in (-4, -5, -6, -7)
    ]
    assert [each.error for each in stale.partitions] == [UNKNOWN_EPOCH]


async def test_epochs_end_and_start_where_the_leader_says(tmp_path: Path) -> None:
    """KIP-320, and KIP-101's fence: a client that knows another epoch of the leader learns it at once."""
    epochs = [PartitionEpoch(NAME.partition, *each) for each in ((EPOCH, EPOCH), (-1, 4), (EPOCH + 1, 4))]
    async with seated(tmp_path) as seat:
        asked = EpochEndsRequest((OfTopic(NAME.topic, tuple(epochs)),))
        (topic,) = (await api_of(seat).epoch_ends(asked, called(apis.OFFSET_FOR_LEADER_EPOCH, 4))).topics
    led, earlier = PartitionEpochEnd(0, 0, EPOCH, END), PartitionEpochEnd(0, 0, 4, END)
    assert topic.partitions == (led, earlier, PartitionEpochEnd(0, UNKNOWN_EPOCH))
