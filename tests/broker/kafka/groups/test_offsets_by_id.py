"""OffsetCommit and OffsetFetch by topic ids: an offset never counts for another topic than it was read of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.fields import Reader, Writer
from strandline.broker.kafka.wire.groups.offsets import (
    IDS_SINCE,
    GroupWanted,
    OffsetFetchAnswer,
    OffsetFetchRequest,
    OffsetsOfGroup,
    PartitionOffset,
)
from strandline.broker.kafka.wire.metadata import MetadataRequest, TopicWanted
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.errors import ErrorCode
from strandline.ids import TopicId
from strandline.testing import SimulatedCluster
from tests.broker.kafka.support.group_client import TOPIC, GroupClient, lone_broker, offsets
from tests.virtual_time import on_virtual_time

UNKNOWN = int(ErrorCode.UNKNOWN_TOPIC_ID)
INVALID_GROUP = int(ErrorCode.INVALID_GROUP_ID)
NOT_AVAILABLE = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
NO_TOPIC = TopicId("a" * 32)


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with lone_broker() as cluster:
        yield cluster


async def topic_id(client: GroupClient) -> TopicId:
    answer = await client.ask(apis.METADATA, MetadataRequest((TopicWanted(TOPIC),), auto_create=False))
    return TopicId(answer.topics[0].topic_id)


def as_read(answer: OffsetFetchAnswer) -> OffsetFetchAnswer:
    """The answer as a client of the last version has it."""
    writer = Writer(flexible=True)
    for _ in apis.OFFSET_FETCH.write(writer, answer, IDS_SINCE) or ():
        pass
    return apis.OFFSET_FETCH.read_answer(Reader(b"".join(writer.parts()), flexible=True), IDS_SINCE)


async def fetched(
    client: GroupClient, *topics: TopicId, every: bool = False, group: str = "g"
) -> OffsetsOfGroup:
    wanted = None if every else tuple(OfTopic("", (0, 1), each) for each in topics)
    answer = await client.ask(apis.OFFSET_FETCH, OffsetFetchRequest((GroupWanted(group, wanted),)))
    (found,) = as_read(answer).groups
    assert isinstance(found, OffsetsOfGroup)
    return found


async def replace(client: GroupClient) -> TopicId:
    """The topic is deleted, and made anew. Returns its id."""
    old = await topic_id(client)
    async with client.cluster.admin() as admin:
        await admin.delete_topics([TOPIC])
    await client.cluster.create_topic(TOPIC, partitions=3)

    async def known() -> bool:
        return await topic_id(client) not in (old, "0" * 32)

    await client.until(known, "the broker knows the new topic")
    return await topic_id(client)


@on_virtual_time
async def test_offsets_are_committed_and_fetched_by_id(cluster: SimulatedCluster) -> None:
    """Each topic is where the request has it. Without topics, each with an offset is answered with its id."""
    client = await GroupClient.prepared(cluster)
    known = await topic_id(client)
    commit = offsets((0, 5), (7, 1))
    assert await client.commit(
        "g", commit._replace(name="", topic_id=NO_TOPIC), commit._replace(name="", topic_id=known)
    ) == [UNKNOWN, UNKNOWN, 0, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    found = await fetched(client, NO_TOPIC, known)
    assert found.topics == (
        OfTopic("", (PartitionOffset(0, error=UNKNOWN), PartitionOffset(1, error=UNKNOWN)), NO_TOPIC),
        OfTopic("", (PartitionOffset(0, 5), PartitionOffset(1)), known),
    )
    assert (await fetched(client, every=True)).topics == (OfTopic("", (PartitionOffset(0, 5),), known),)
    assert await client.fetched("g") == {0: 5}


@on_virtual_time
async def test_an_error_of_a_group_is_each_partitions_under_the_id_of_its_topic(
    cluster: SimulatedCluster,
) -> None:
    client = await GroupClient.prepared(cluster)
    known = await topic_id(client)
    found = await fetched(client, NO_TOPIC, known, group="")
    invalid = tuple(PartitionOffset(number, error=INVALID_GROUP) for number in (0, 1))
    assert found.error == INVALID_GROUP
    assert found.topics == (OfTopic("", invalid, NO_TOPIC), OfTopic("", invalid, known))


@on_virtual_time
async def test_the_id_of_a_topic_that_was_replaced_is_unknown(cluster: SimulatedCluster) -> None:
    """CORRECTNESS G12: its commit is not stored for the next topic of the name, and that one's is not given
    to a client that asks for the old one."""
    client = await GroupClient.prepared(cluster)
    old = await topic_id(client)
    commit = offsets((0, 5))
    assert await client.commit("g", commit._replace(name="", topic_id=old)) == [0]
    new = await replace(client)
    assert await client.commit("g", commit._replace(name="", topic_id=old)) == [UNKNOWN]
    assert await client.fetched("g") == {}
    assert await client.commit("g", offsets((0, 9))._replace(name="", topic_id=new)) == [0]
    found = await fetched(client, old, new)
    assert [each.offset for topic in found.topics for each in topic.partitions] == [-1, -1, 9, -1]
    assert [each.error for topic in found.topics for each in topic.partitions] == [UNKNOWN, UNKNOWN, 0, 0]


@on_virtual_time
async def test_while_zookeeper_is_silent_no_id_is_unknown_and_no_offset_is_lost(
    cluster: SimulatedCluster,
) -> None:
    """A client that hears that no topic has an id forgets its topic. One that hears of no offsets begins
    anew."""
    client = await GroupClient.prepared(cluster)
    known = await topic_id(client)
    commit = offsets((0, 5))
    assert await client.commit("g", commit._replace(name="", topic_id=known)) == [0]
    cluster.cut(1, "zookeeper")
    assert await client.commit(
        "g", commit._replace(name="", topic_id=NO_TOPIC), offsets((0, 6))._replace(name="", topic_id=known)
    ) == [NOT_AVAILABLE, 0]
    assert (await fetched(client, known, NO_TOPIC)).error == NOT_AVAILABLE
    assert (await fetched(client, known)).error == 0
    assert (await fetched(client, every=True)).topics == (OfTopic("", (PartitionOffset(0, 6),), known),)


@on_virtual_time
async def test_an_error_of_the_request_is_not_lost_behind_unknown_ids(cluster: SimulatedCluster) -> None:
    client = await GroupClient.prepared(cluster)
    member = (await client.stable("g")).member
    unknown = offsets((0, 5), (1, 5))._replace(name="", topic_id=NO_TOPIC)
    stale = await client.commit("g", unknown, member=member, generation=2)
    assert stale == [ErrorCode.ILLEGAL_GENERATION] * 2
    assert await client.commit("g", unknown, member=member, generation=1) == [UNKNOWN] * 2
