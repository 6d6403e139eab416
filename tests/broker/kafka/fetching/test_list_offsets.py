"""ListOffsets and OffsetForLeaderEpoch: which times are served, and which epochs are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.broker.kafka.errors import KafkaCode
from strandline.broker.kafka.handlers.offsets import OffsetsApi
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.offsets import (
    DEBUGGING,
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
        found = [await listed(api, at(time)) for time in times]
        early = await listed(api, at(-3), version=6)
        refused = await listed(api, PartitionTime(NAME.partition, EPOCH + 1, -1))
    unserved = int(KafkaCode.UNSUPPORTED_VERSION)
    assert [each.error for each in found] == [0, 0, 0, unserved, unserved, 0]
    assert [found[number].offset for number in (0, 2, 5)] == [END, 0, 0]
    assert {each.leader_epoch for each in found if each.error == 0} <= {EPOCH, 4}
    assert early.error == unserved, "KIP-734"
    assert refused.error == UNKNOWN_EPOCH, "KIP-101: it learns it at once"


async def test_without_a_record_there_is_no_epoch(tmp_path: Path) -> None:
    """As from Kafka's brokers: no record, no leader that wrote it."""
    async with seated(tmp_path) as seat:
        found = await listed(api_of(seat), at(2**63 - 1))
    assert found == OffsetAtTime(NAME.partition)


async def test_what_cannot_be_asked_is_refused_once(tmp_path: Path) -> None:
    """A partition that is named twice, and an isolation level that there is not, by Kafka's codes."""
    async with seated(tmp_path) as seat:
        api = api_of(seat)
        (twice,) = (await answer(api, (at(-1), at(-2)), 7)).partitions
        (level,) = (await answer(api, (at(-1),), 7, isolation_level=2)).partitions
    assert (twice.error, level.error) == (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR)


async def test_a_debugging_consumer_asks_followers_too(tmp_path: Path) -> None:
    async with seated(tmp_path) as seat:
        write(seat.replica, 4, "a", "b")
        api = OffsetsApi(log_handlers(seat))
        (refused,) = (await answer(api, (at(-2),), 7)).partitions
        (served,) = (await answer(api, (at(-2),), 7, replica=DEBUGGING)).partitions
    assert (refused.error, served) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER, OffsetAtTime(NAME.partition, 0, -1, 0, served.leader_epoch)
    )  # fmt: skip


def at(time: int) -> PartitionTime:
    return PartitionTime(NAME.partition, -1, time)


async def listed(api: OffsetsApi, wanted: PartitionTime, version: int = 7) -> OffsetAtTime:
    (found,) = (await answer(api, (wanted,), version)).partitions
    return found


async def answer(
    api: OffsetsApi, wanted: tuple[PartitionTime, ...], version: int, **more: int
) -> OfTopic[OffsetAtTime]:
    asked = ListOffsetsRequest((OfTopic(NAME.topic, wanted),), **more)
    (topic,) = (await api.list_offsets(asked, called(apis.LIST_OFFSETS, version))).topics
    return topic


@pytest.mark.parametrize(("version", "served"), [(7, ()), (8, (-4,)), (9, (-4, -5)), (11, (-4, -5, -6))])
async def test_times_of_tiered_storage_are_those_of_a_log_without_it(
    tmp_path: Path, version: int, served: tuple[int, ...]
) -> None:
    """As a broker of Kafka 4.4 answers: its local log is the whole one. Each time has its first version."""
    async with seated(tmp_path) as seat:
        api = api_of(seat)
        found = [await listed(api, at(time), version) for time in (-4, -5, -6, -7)]
        stale = await listed(api, PartitionTime(NAME.partition, EPOCH + 1, -5), version=11)
    start, none = (0, 0, EPOCH), (0, -1, -1)
    answers = {-4: start, -5: none, -6: none}
    refused = (int(KafkaCode.UNSUPPORTED_VERSION), -1, -1)
    assert [(each.error, each.offset, each.leader_epoch) for each in found] == [
        answers[time] if time in served else refused for time in (-4, -5, -6, -7)
    ]
    assert stale.error == UNKNOWN_EPOCH


async def test_epochs_end_and_start_where_the_leader_says(tmp_path: Path) -> None:
    """KIP-320, and KIP-101's fence: a client that knows another epoch of the leader learns it at once."""
    epochs = [PartitionEpoch(NAME.partition, *each) for each in ((EPOCH, EPOCH), (-1, 4), (EPOCH + 1, 4))]
    async with seated(tmp_path) as seat:
        asked = EpochEndsRequest((OfTopic(NAME.topic, tuple(epochs)),))
        (topic,) = (await api_of(seat).epoch_ends(asked, called(apis.OFFSET_FOR_LEADER_EPOCH, 4))).topics
    led, earlier = PartitionEpochEnd(0, 0, EPOCH, END), PartitionEpochEnd(0, 0, 4, END)
    assert topic.partitions == (led, earlier, PartitionEpochEnd(0, UNKNOWN_EPOCH))
