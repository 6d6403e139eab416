"""Bad arguments of the public calls, with a real broker: refused at the call, by name; nothing is sent,
and the client continues (docs/use/groups.md)."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from inspect import isawaitable
from typing import Any

import pytest

from strandline import CommittedOffset, Consumer, TopicPartition
from strandline.errors import InvalidRequest, InvalidTopic, SettingsError, UnknownTopicOrPartition
from strandline.testing import MemoryCluster
from tests.integration.groups.support.group_members import GROUP_SETTINGS

WAIT_MS = 20_000
TIDES = TopicPartition("tides", 0)

Call = Callable[..., Any]


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(brokers=1) as cluster:
        await _fill(cluster)
        yield cluster


async def _fill(cluster: MemoryCluster) -> None:
    async with (
        cluster.admin() as admin,
        cluster.producer() as producer,
    ):
        await admin.create_topic("tides", 1, 1)
        for value in (b"low", b"high", b"low"):
            _ = await producer.send_and_wait("tides", value, partition=0)


async def refused(
    call: Call, *arguments: object, error: type[Exception] = InvalidRequest, **named: object
) -> None:
    with pytest.raises(error, match=r"."):
        made: Awaitable[Any] | None = call(*arguments, **named)
        if isawaitable(made):
            await made


@pytest.mark.slow
async def test_a_consumer_refuses_them_and_continues(cluster: MemoryCluster) -> None:
    """Its position, its membership and what it commits are as if nothing had been asked."""
    async with Consumer(
        cluster.bootstrap, host=cluster.host, group_id="refuses", **GROUP_SETTINGS
    ) as consumer:
        for topics in ([1], b"tides", 5, [None], "tides", [], [""]):
            await refused(consumer.subscribe, topics)
        for name in ("a/b", "x" * 250, "."):
            await refused(consumer.subscribe, [name], error=InvalidTopic)
        for pattern in ("(", re.compile(b"t.*"), 3):
            await refused(consumer.subscribe, pattern=pattern)
        assert consumer.subscription() == frozenset()

        consumer.subscribe(["tides"])
        assert (await consumer.getone()).value == b"low"
        member = consumer.group_metadata()
        for offset in (2**63, True, 3.5, "3", None, -1):
            await refused(consumer.seek, TIDES, offset)
        for partition in (TopicPartition(3, "x"), "tides", None, TopicPartition("tides", -1)):  # type: ignore[arg-type]
            await refused(consumer.committed, partition)
            await refused(consumer.pause, partition)
        for given in (2**63, True, (3, 5), "3", None, 3.5, CommittedOffset(4, "x")):  # type: ignore[arg-type]
            await refused(consumer.commit, {TIDES: given})
        for offsets in (5, [TIDES], {"tides": 3}):
            await refused(consumer.commit, offsets)
        for seconds in ("x", math.nan, math.inf, -1, None):
            await refused(consumer.extend_processing, seconds)
        await refused(consumer.getmany, timeout_ms=-1)
        await refused(consumer.getmany, timeout_ms=None)
        await refused(consumer.getmany, max_records=0)
        await refused(consumer.getmany, max_records=-1)
        await refused(consumer.getbatches, timeout_ms=-1)
        await refused(consumer.offsets_for_times, {TIDES: 2**63})
        await refused(consumer.end_offsets, TIDES)

        assert (await consumer.getone()).value == b"high"
        await consumer.commit()
        assert (committed := await consumer.committed(TIDES)) is not None and committed.offset == 2
        assert consumer.group_metadata() == member


@pytest.mark.slow
async def test_a_committed_offset_that_was_read_can_be_committed_again(cluster: MemoryCluster) -> None:
    """With its metadata, which an application keeps there for a reason."""
    async with cluster.consumer(group_id="again", **GROUP_SETTINGS) as consumer:
        consumer.subscribe(["tides"])
        _ = await consumer.getone()
        await consumer.commit({TIDES: (3, "spring tide")})
        committed = await consumer.committed(TIDES)
        assert committed is not None
        await consumer.commit({TIDES: 1})
        await consumer.commit({TIDES: committed})
        again = await consumer.committed(TIDES)
        assert again is not None and (again.offset, again.metadata) == (3, "spring tide")


@pytest.mark.parametrize("assignors", [(3,), (), "sticky", ("foo",)])
def test_assignors_that_are_none_are_refused_at_construction(assignors: Any) -> None:
    with pytest.raises(SettingsError, match="assignor"):
        Consumer("127.0.0.1:1", group_id="g", assignors=assignors)


@pytest.mark.slow
async def test_an_administrator_gets_the_error_of_an_argument(cluster: MemoryCluster) -> None:
    """And not that the group "" is empty."""
    async with cluster.admin() as admin:
        group: Any
        for group in (3, None, "\ud800", b"x"):
            for call in (admin.describe_group, admin.group_offsets, admin.delete_group):
                with pytest.raises(InvalidRequest, match="group = "):
                    await call(group)
            with pytest.raises(InvalidRequest, match="group = "):
                await admin.alter_group_offsets(group, {TIDES: 1})
        offsets: Any
        for offsets in ({TIDES: -1}, {TIDES: 2**63}, {TIDES: "x"}, {TIDES: True}, {"x": 1}, None, [TIDES]):
            with pytest.raises(InvalidRequest, match=": give "):
                await admin.alter_group_offsets("altered", offsets)
        assert await admin.group_offsets("altered") == {}


@pytest.mark.slow
async def test_offsets_are_altered_of_partitions_that_exist_only(cluster: MemoryCluster) -> None:
    """None is written if one is refused. An unknown group begins with its offsets, as in Kafka."""
    async with cluster.admin() as admin:
        for name in (TopicPartition("nope", 0), TopicPartition("tides", 1)):
            with pytest.raises(UnknownTopicOrPartition, match=name.topic):
                await admin.alter_group_offsets("begins", {TIDES: 1, name: 1})
            assert await admin.group_offsets("begins") == {}
        await admin.alter_group_offsets("begins", {TIDES: 1})
        assert {
            name: committed.offset for name, committed in (await admin.group_offsets("begins")).items()
        } == {TIDES: 1}
