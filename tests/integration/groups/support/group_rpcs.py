"""The RPCs of groups as they are on the wire, one broker at a time: what a consumer would smooth over."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from strandline.adapters.codecs import groups as group_wire
from strandline.broker.coordinators.placement import partition_of
from strandline.errors import (
    BrokerNotAvailable,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    NotCoordinator,
    OutcomeUnknown,
    RebalanceInProgress,
)
from strandline.ids import TopicPartition
from strandline.ports import Method, Request, Response
from strandline.vocabulary.groups import (
    CommittedOffset,
    DescribedGroup,
    FetchedOffsets,
    GroupProtocol,
    Heartbeat,
    Joined,
    JoinGroup,
    MemberIdGiven,
    OffsetCommit,
    OffsetFetch,
    OffsetResults,
    SyncGroup,
)
from strandline.vocabulary.metadata import Endpoint
from tests.reachable import Reachable
from tests.waiting import eventually

CALL_S_MAX = 20.0
NOT_NOW = (
    BrokerNotAvailable,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    NotCoordinator,
    OutcomeUnknown,
)
"""The errors that a client gets while a coordinator dies and another one takes over."""


class GroupRpcs:
    """Calls to the brokers of one cluster, over connections of its own."""

    def __init__(self, cluster: Reachable) -> None:
        self.cluster = cluster
        self.transport = cluster.host.transport(None)
        self._addresses = dict(zip(cluster.broker_ids, cluster.bootstrap.split(","), strict=True))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.transport.close()

    async def call(
        self,
        address: str,
        method: Method[Request, Response],
        request: Request,
        *,
        timeout_s: float = CALL_S_MAX,
    ) -> Response:
        return await self.transport.call(address, method, request, timeout_s=timeout_s)

    async def at(
        self, broker: int, method: Method[Request, Response], request: Request, **given: float
    ) -> Response:
        return await self.call(self._addresses[broker], method, request, **given)

    @staticmethod
    def partition(group: str, partitions: int) -> int:
        """Where the group is in `__consumer_offsets`."""
        return partition_of(group, partitions)

    async def coordinator(self, group: str, *, other_than: int = -1) -> Endpoint:
        """The coordinator of the group; every broker is asked until one knows."""

        async def find() -> Endpoint | None:
            for broker in self.cluster.broker_ids:
                try:
                    found = await self.at(broker, group_wire.FIND_COORDINATOR, group, timeout_s=2)
                except NOT_NOW:
                    continue
                if found.id != other_than:
                    return found
            return None

        found = await eventually(find, deadline_s=30)
        assert found is not None
        return found

    async def asked(
        self, group: str, method: Method[Request, Response], request: Request, *, deadline_s: float = 30
    ) -> Response:
        """One call to the coordinator of the group, repeated while none can answer."""
        answers: list[Response] = []

        async def ask() -> bool:
            try:
                end = await self.coordinator(group)
                answers.append(await self.call(end.address, method, request))
            except NOT_NOW:
                return False
            return True

        await eventually(ask, deadline_s=deadline_s, what=method.path)
        return answers[0]


class Member:
    """One member played by hand. It goes to the coordinator that it knows, and stays there."""

    def __init__(self, rpcs: GroupRpcs, group: str, *, instance: str | None = None, **given: Any) -> None:
        self.rpcs = rpcs
        self.group = group
        self.instance = instance
        self.member = ""
        self.generation = -1
        self.protocol = ""
        self.metadata = b"metadata"
        self.session_timeout_ms = 10_000
        self.rebalance_timeout_ms = 10_000
        self.address = ""
        for name, value in given.items():
            setattr(self, name, value)

    async def find(self) -> None:
        self.address = (await self.rpcs.coordinator(self.group)).address

    async def _call(self, method: Method[Request, Response], request: Request, **given: float) -> Response:
        if not self.address:
            await self.find()
        return await self.rpcs.call(self.address, method, request, **given)

    def join_request(self, **given: Any) -> JoinGroup:
        fields: dict[str, Any] = {
            "group": self.group,
            "member": self.member,
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "protocol_type": "consumer",
            "protocols": (GroupProtocol("range", self.metadata),),
            "instance": self.instance,
            "client_id": "test",
        }
        return JoinGroup(**{**fields, **given})

    async def join(self, **given: Any) -> Joined:
        """With an id first, where one is wanted; the group may still be loading."""
        answers: list[Joined] = []

        async def joined() -> bool:
            try:
                answer = await self._call(group_wire.JOIN_GROUP, self.join_request(**given))
            except (BrokerNotAvailable, CoordinatorLoading, CoordinatorNotAvailable, NotCoordinator):
                self.address = ""
                return False
            if isinstance(answer, MemberIdGiven):
                self.member = answer.member
                return False
            answers.append(answer)
            return True

        await eventually(joined, deadline_s=30)
        (answer,) = answers
        self.member, self.generation, self.protocol = answer.member, answer.generation, answer.protocol
        return answer

    async def sync(self, assignments: Mapping[str, bytes] | None = None, **given: Any) -> bytes:
        fields: dict[str, Any] = {
            "group": self.group,
            "member": self.member,
            "generation": self.generation,
            "protocol_type": "consumer",
            "protocol": self.protocol,
            "assignments": assignments or {},
            "instance": self.instance,
        }
        return await self._call(group_wire.SYNC_GROUP, SyncGroup(**{**fields, **given}))

    async def heartbeat(self, max_wait_ms: int = 0, **given: Any) -> None:
        fields: dict[str, Any] = {
            "group": self.group,
            "member": self.member,
            "generation": self.generation,
            "instance": self.instance,
            "max_wait_ms": max_wait_ms,
        }
        await self._call(group_wire.HEARTBEAT, Heartbeat(**{**fields, **given}))

    async def commit(
        self, offsets: Mapping[TopicPartition, int | CommittedOffset], **given: Any
    ) -> OffsetResults:
        fields: dict[str, Any] = {
            "group": self.group,
            "member": self.member,
            "generation": self.generation,
            "offsets": {
                name: each if isinstance(each, CommittedOffset) else CommittedOffset(each)
                for name, each in offsets.items()
                for name, each in offsets.items()
            },
            "instance": self.instance,
        }
        return await self._call(group_wire.OFFSET_COMMIT, OffsetCommit(**{**fields, **given}))

    async def committed(self) -> FetchedOffsets:
        return await self._call(group_wire.OFFSET_FETCH, OffsetFetch(self.group))

    async def described(self) -> DescribedGroup:
        return await self._call(group_wire.DESCRIBE_GROUP, self.group)


async def stable(members: Sequence[Member]) -> int:
    """Have exactly these form a generation, each assigned its own id; returns the generation."""
    synced: dict[str, int] = {}
    size: dict[int, int] = {}
    formed = asyncio.Event()

    async def belong(member: Member) -> None:
        while not formed.is_set():
            answer = await member.join()
            if answer.leader == member.member:
                size[answer.generation] = len(answer.members)
            plan = {other.member: other.member.encode() for other in answer.members}
            try:
                assert await member.sync(plan) == member.member.encode()
                synced[member.member] = member.generation
                generations = [synced.get(other.member) for other in members]
                if set(generations) == {member.generation} and size[member.generation] == len(members):
                    formed.set()
                while not formed.is_set():
                    await member.heartbeat(50)
            except RebalanceInProgress:
                continue

    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        for member in members:
            tasks.create_task(belong(member))
    return members[0].generation
