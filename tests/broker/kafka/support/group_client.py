"""What Kafka clients ask of the handlers for groups, on one broker in memory and on virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Self

from strandline.broker.kafka.handlers.groups.administration import NOT_FOUND_SINCE
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.coordinator import GROUP, FindCoordinatorRequest
from strandline.broker.kafka.wire.groups.administration import DescribeGroupsRequest, GroupDescription
from strandline.broker.kafka.wire.groups.membership import (
    AssignedMember,
    HeartbeatRequest,
    JoinGroupAnswer,
    JoinGroupRequest,
    OfferedProtocol,
    SyncGroupAnswer,
    SyncGroupRequest,
)
from strandline.broker.kafka.wire.groups.offsets import (
    GroupWanted,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetToCommit,
)
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.errors import ErrorCode
from strandline.testing import SimulatedCluster
from tests.broker.kafka.support.handlers import KafkaHandlers, kafka_brokers

SESSION_MS: Final = 10_000
BY_NAME: Final = 9
"""The last version of OffsetCommit and OffsetFetch that names topics by their names."""
TOPIC: Final = "tides"
"""It has three partitions."""
RANGE: Final = (OfferedProtocol("range", b"topics"),)


@contextmanager
def lone_broker() -> Iterator[SimulatedCluster]:
    """It coordinates each group."""
    with kafka_brokers(1, offsets_topic_partitions=1, group_initial_rebalance_delay_ms=0) as cluster:
        yield cluster


class GroupClient(KafkaHandlers):
    """Use it within `cluster.run`."""

    @classmethod
    async def prepared(cls, cluster: SimulatedCluster) -> Self:
        """The topic is there, and the broker coordinates the groups."""
        await cluster.create_topic(TOPIC, partitions=3)
        client = cls(cluster)

        async def coordinated() -> bool:
            (found,) = (await client.ask(apis.FIND_COORDINATOR, FindCoordinatorRequest(("g",), GROUP))).found
            return not found.error and not (await client.described("g")).error

        await client.until(coordinated, "the broker coordinates")
        return client

    # --- members -----------------------------------------------------------------------------

    async def join(
        self, group: str, member: str = "", version: int | None = None, **more: Any
    ) -> JoinGroupAnswer:
        given = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": SESSION_MS, "protocols": RANGE}
        asked = JoinGroupRequest(group=group, member=member, protocol_type="consumer", **{**given, **more})
        answer: JoinGroupAnswer = await self.ask(apis.JOIN_GROUP, asked, version)
        return answer

    async def enter(self, group: str, **more: Any) -> JoinGroupAnswer:
        """A new member joins with the id that it is given."""
        given = await self.join(group, **more)
        if given.error != ErrorCode.MEMBER_ID_REQUIRED:
            return given
        return await self.join(group, given.member, **more)

    async def sync(
        self,
        group: str,
        joined: JoinGroupAnswer,
        *,
        version: int | None = None,
        named: tuple[str | None, str | None] = ("consumer", "range"),
        instance: str | None = None,
        **assignments: bytes,
    ) -> SyncGroupAnswer:
        """`assignments` by member; `all` stands for the member that asks."""
        made = tuple(
            AssignedMember(joined.member if name == "all" else name, data)
            for name, data in assignments.items()
        )
        asked = SyncGroupRequest(group, joined.generation, joined.member, made, instance, *named)
        answer: SyncGroupAnswer = await self.ask(apis.SYNC_GROUP, asked, version)
        return answer

    async def stable(self, group: str, **more: Any) -> JoinGroupAnswer:
        """One member, with its assignment."""
        joined = await self.enter(group, **more)
        synced = await self.sync(group, joined, instance=more.get("instance"), all=b"all")
        assert (synced.error, synced.assignment) == (0, b"all")
        return joined

    async def beat(self, group: str, joined: JoinGroupAnswer, instance: str | None = None) -> int:
        asked = HeartbeatRequest(group, joined.generation, joined.member, instance)
        return int((await self.ask(apis.HEARTBEAT, asked)).error)

    async def described(self, group: str) -> GroupDescription:
        asked = DescribeGroupsRequest((group,))
        (found,) = (await self.ask(apis.DESCRIBE_GROUPS, asked, NOT_FOUND_SINCE - 1)).groups
        described: GroupDescription = found
        return described

    # --- offsets -----------------------------------------------------------------------------

    async def commit(
        self, group: str, *topics: OfTopic[OffsetToCommit], member: str = "", generation: int = -1
    ) -> list[int]:
        """The errors, in the order of the partitions."""
        asked = OffsetCommitRequest(group, generation, member, topics)
        by_id = any(topic.topic_id for topic in topics)
        answer = await self.ask(apis.OFFSET_COMMIT, asked, None if by_id else BY_NAME)
        return [each.error for topic in answer.topics for each in topic.partitions]

    async def fetched(self, group: str) -> dict[int, int]:
        """All offsets of the topic, by partition."""
        asked = OffsetFetchRequest((GroupWanted(group, None),))
        (found,) = (await self.ask(apis.OFFSET_FETCH, asked, BY_NAME)).groups
        assert found.error == 0
        return {each.partition: each.offset for topic in found.topics for each in topic.partitions}


def offsets(*found: tuple[int, int], topic: str = TOPIC, metadata: str | None = None) -> OfTopic[Any]:
    """(partition, offset)"""
    return OfTopic(topic, tuple(OffsetToCommit(number, offset, -1, metadata) for number, offset in found))
