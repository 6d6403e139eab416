"""A group of strandline's consumers and Kafka clients, which come and go: what each was handed out, and which
partitions each owned at which time.

Every member commits what it was handed out before it gives a partition up, so records are handed out once as
long as no member dies.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from itertools import count
from typing import Any, Protocol, Self

from strandline import Admin, LocalCluster, TopicPartition
from strandline.auditing.checks import Finding
from strandline.vocabulary.groups import DescribedGroup
from strandline_lab.auditing import member_ownership
from strandline_lab.auditing.member_ownership import Change, MemberHistory
from tests.integration.groups.support.group_members import Participant, new_group
from tests.integration.kafka.support.aiokafka_member import AiokafkaMember
from tests.integration.kafka.support.confluent_member import CONSUMER, STATIC_SESSION_MS, ConfluentMember
from tests.integration.kafka.support.heard import Heard
from tests.integration.kafka.support.kafka_python_member import KafkaPythonMember
from tests.waiting import eventually

SETTLE_S = 30.0

RANGE, ROUNDROBIN, COOPERATIVE_STICKY = "range", "roundrobin", "cooperative-sticky"
STRANDLINE, CONFLUENT, AIOKAFKA, KAFKA_PYTHON = "strandline", "confluent", "aiokafka", "kafka-python"

_numbers = count(1)


class Member(Protocol):
    """`read` reads until `stop`, and leaves the group."""

    heard: Heard
    errors: list[Any]

    @property
    def places(self) -> list[tuple[str, int, int]]:
        """Topic, partition and offset of each record."""
        ...

    async def read(self) -> None: ...

    def stop(self) -> None: ...


class StrandlineMember:
    """With the default assignors of its protocol: cooperative in a group on `cooperative-sticky`, and of the
    consumer protocol with CONSUMER."""

    def __init__(
        self, cluster: LocalCluster, group: str, topic: str, assignor: str, name: str, instance: str | None
    ) -> None:
        protocol = "cooperative" if assignor == COOPERATIVE_STICKY else "eager"
        settings: dict[str, Any] = {"client_id": name, "rebalance_protocol": protocol}
        if assignor == CONSUMER:
            settings = {"client_id": name, "group_protocol": CONSUMER}
        if instance is not None:
            settings |= {"group_instance_id": instance, "session_timeout_ms": STATIC_SESSION_MS}
        self._participant = Participant(cluster, group, **settings)
        self._participant.heard.before = self._hear
        self._topic = topic
        self.heard = Heard(name)
        self.errors: list[Any] = self._participant.errors

    async def _hear(self, event: str, partitions: set[TopicPartition]) -> None:
        self.heard.hear(event, partitions)

    @property
    def places(self) -> list[tuple[str, int, int]]:
        return [(record.topic, record.partition, record.offset) for record in self._participant.records]

    async def read(self) -> None:
        one = self._participant
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(one.read())
            await one.started.wait()
            one.consumer.subscribe([self._topic], listener=one.heard)

    def stop(self) -> None:
        self._participant.stop()


class MixedGroup:
    """The group, on one topic. `all` has every member that ever was in it."""

    def __init__(self, cluster: LocalCluster, topic: str, partitions: int) -> None:
        self.cluster = cluster
        self.topic, self.partitions = topic, partitions
        self.name = new_group()
        self.all: list[Member] = []
        self._tasks = asyncio.TaskGroup()
        self._running: dict[Member, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        for member in self._running:
            member.stop()
        await self._tasks.__aexit__(*error)

    def join(self, kind: str, assignor: str = RANGE, instance: str | None = None) -> Member:
        """One more member, static with an instance; it may not have joined yet."""
        name = f"{kind}-{next(_numbers)}"
        bootstrap = self.cluster.kafka_bootstrap
        member: Member
        if kind == STRANDLINE:
            member = StrandlineMember(self.cluster, self.name, self.topic, assignor, name, instance)
        elif kind == CONFLUENT:
            member = ConfluentMember(bootstrap, self.name, self.topic, assignor, name, instance)
        elif kind == AIOKAFKA:
            member = AiokafkaMember(bootstrap, self.name, self.topic, assignor, name)
        else:
            member = KafkaPythonMember(bootstrap, self.name, self.topic, assignor, name)
        self.all.append(member)
        self._running[member] = self._tasks.create_task(member.read())
        return member

    async def leave(self, member: Member) -> None:
        member.stop()
        await self._running.pop(member)

    async def settled(self, *members: Member, even: bool = True) -> None:
        """Return once these members own everything and, if it has to be even, no two shares differ by more
        than one."""

        def shared() -> bool:
            owned = [member.heard.owned for member in members]
            sizes = [len(own) for own in owned]
            whole = len(set().union(*owned)) == sum(sizes) == self.partitions
            return whole and (not even or max(sizes) - min(sizes) <= 1)

        names = [member.heard.name for member in members]
        await eventually(shared, deadline_s=SETTLE_S, what=f"{names} share {self.partitions} partitions")

    async def described(self) -> DescribedGroup:
        async with Admin(self.cluster.bootstrap) as admin:
            return (await admin.describe_group(self.name)).group

    async def leader(self) -> str:
        """The name of the member that leads."""
        group = await self.described()
        return next(member.client_id for member in group.members if member.member == group.leader)

    async def seen(self, written: Iterable[tuple[str, int, int]]) -> Counter[tuple[str, int, int]]:
        """How often each record was handed out, once all these were."""
        wanted = set(written)
        await eventually(
            lambda: wanted <= {place for member in self.all for place in member.places},
            deadline_s=SETTLE_S,
            what="all is read",
        )
        return Counter(place for member in self.all for place in member.places)

    def findings(self) -> list[Finding]:
        """What the auditor finds in the members' own histories: two owners, a handover out of turn."""
        now = time.monotonic_ns() // 1000
        histories = [
            MemberHistory(member.heard.name, self.name, list(member.heard.changes), now)
            for member in self.all
        ]
        return member_ownership.findings(histories, [])

    def changes(self, *members: Member) -> list[Change]:
        """What these have heard, without assignments of nothing."""
        return [change for member in members for change in member.heard.changes]
