"""Where a query begins and ends, in logs in memory."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from strandline.errors import UnknownTopicOrPartition
from strandline.ids import TopicPartition
from strandline.pipeline.core.options import source_options
from strandline.pipeline.core.ranges import Bounds, OffsetRange
from strandline.pipeline.errors import DataLost, InvalidOption, NoOffset
from strandline.pipeline.reading.cluster_facts import ClusterFacts, Snapshot
from strandline.pipeline.reading.planning import begin, check_existing, finish, in_logs
from tests.strandline.client.log_world import CLOCK, LogWorld
from tests.strandline.client.network import memory_host

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Logs:
    """Partition 0 has offsets 2 to 9, of 1 s and from 6 on of 2 s; partition 1 has three of 1 s."""

    def __init__(self, facts: ClusterFacts) -> None:
        self._facts = facts

    async def edges(self, **given: str) -> tuple[list[int], list[int]]:
        """Where partitions 0 and 1 begin, and where they end."""
        options = source_options({"bootstrap": "b:1", "subscribe": "t", **given}, stream=False)
        snapshot = await self._facts.snapshot(options.selection)
        starts = await begin(self._facts, options, snapshot)
        ends = await finish(self._facts, options, snapshot)
        return [starts[T0], starts[T1]], [ends[T0], ends[T1]]


@pytest.fixture
async def logs() -> AsyncIterator[Logs]:
    world = LogWorld()
    first, second = world.create("t", 2)
    for timestamp_ms in (500, 1_000, 1_000, 2_000, 2_000):
        first.write(2, timestamp_ms=timestamp_ms)
    first.forget(2)
    second.write(3, timestamp_ms=1_000)
    async with ClusterFacts("broker1:1", retries=0, host=memory_host(world, CLOCK)) as facts:
        yield Logs(facts)


def of(first: int, second: int) -> str:
    return json.dumps({"t": {"0": first, "1": second}})


async def test_a_query_without_bounds_reads_from_the_starts_of_the_logs_to_the_watermarks(logs: Logs) -> None:
    assert await logs.edges() == ([2, 0], [10, 3])


async def test_offsets_are_taken_as_they_are_given_and_edges_are_looked_up(logs: Logs) -> None:
    assert await logs.edges(startingOffsets=of(5, -2), endingOffsets=of(-1, 2)) == ([5, 0], [10, 2])


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
async def test_an_offset_beyond_the_log_is_an_error_and_no_loss(logs: Logs, option: str) -> None:
    with pytest.raises(InvalidOption, match=rf"^{option}: t-1 has 4, and its log ends at offset 3: give an"):
        await logs.edges(**{option: of(5, 4)})


async def test_a_time_is_the_first_record_not_older_at_either_end(logs: Logs) -> None:
    between = {"startingTimestamp": "600", "endingTimestamp": "1500"}
    assert await logs.edges(**between) == ([2, 0], [6, 3]), (
        "no record ends partition 1: it is read to its end"
    )
    assert await logs.edges(startingOffsetsByTimestamp=of(1_001, 0)) == ([6, 0], [10, 3])


async def test_a_time_that_is_too_late_for_a_partition_is_an_error_or_its_end(logs: Logs) -> None:
    with pytest.raises(NoOffset, match=r"^t-1: no record is as young as 1500 ms since 1970"):
        await logs.edges(startingTimestamp="1500")
    late = {"startingTimestamp": "1500", "startingOffsetsByTimestampStrategy": "latest"}
    assert await logs.edges(**late) == ([6, 3], [10, 3])


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets", "startingOffsetsByTimestamp"])
async def test_offsets_are_given_for_all_that_is_read_and_nothing_else(logs: Logs, option: str) -> None:
    with pytest.raises(InvalidOption, match=rf"^{option} says nothing of t-1: give all partitions"):
        await logs.edges(**{option: json.dumps({"t": {"0": 5}})})
    with pytest.raises(InvalidOption, match=rf"^{option} names t-2, u-0, which is not read"):
        await logs.edges(**{option: json.dumps({"t": {"0": 5, "1": 5, "2": 5}, "u": {"0": 1}})})


def test_topics_that_are_missing_are_named() -> None:
    check_existing([])
    with pytest.raises(UnknownTopicOrPartition, match="there is no topic 'a', 'b': create it first"):
        check_existing(["b", "a"])


def test_bounds_of_a_recreated_topic_do_not_fail_a_range() -> None:
    """Its bounds say nothing; the task that reads the range finds out what happened to the topic."""
    again = Snapshot({"t": "second"}, {T0: Bounds(50, 60)}, [])
    wanted = [OffsetRange("t", 0, 5, 9, "first")]
    assert in_logs(wanted, again, fail_on_data_loss=True) == wanted
    same = Snapshot({"t": "first"}, {T0: Bounds(7, 60)}, [])
    with pytest.raises(DataLost, match="t-0 has lost offsets 5 to 6"):
        in_logs(wanted, same, fail_on_data_loss=True)
    assert in_logs(wanted, same, fail_on_data_loss=False) == [OffsetRange("t", 0, 7, 9, "first")]
