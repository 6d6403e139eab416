"""Groups whose members change their protocol or come back as static members (docs/use/groups.md)."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from random import Random

import pytest

from strandline import Consumer, TopicPartition
from strandline.adapters.codecs.groups import FIND_COORDINATOR, HEARTBEAT, JOIN_GROUP, SYNC_GROUP
from strandline.consumer.core.protocol import Assignment, Subscription
from strandline.errors import CoordinatorNotAvailable, RebalanceInProgress, StrandlineError
from strandline.ports import Method, Request, Response, Transport
from strandline.testing import MemoryCluster
from strandline.vocabulary.groups import GroupProtocol, Heartbeat, Joined, JoinGroup, MemberIdGiven, SyncGroup
from tests.integration.groups.support.group_members import (
    GROUP_SETTINGS,
    SETTLE_S,
    Members,
    Participant,
    RebalanceLog,
    loading,
    new_group,
    new_topic,
)
from tests.waiting import eventually

pytestmark = pytest.mark.slow

PARTITIONS = 6


async def test_two_rolling_bounces_upgrade_a_group_under_load(
    cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """KIP-429, upgrade: all members are replaced one by one, by eager ones and then by cooperative ones; the
    group is mixed in between, reads on, and each record is handed out once."""
    topic = await new_topic(cluster, PARTITIONS)
    async with (
        loading(cluster, {topic: PARTITIONS}) as load,
        Members(cluster, [topic]) as members,
    ):
        group = [await members.join(rebalance_protocol="eager") for _ in range(3)]
        await members.settled(*group, partitions=PARTITIONS)
        with caplog.at_level(logging.WARNING, "consumer"):
            for protocol in ("eager", "cooperative"):
                for old in list(group):
                    await members.leave(old)
                    group.remove(old)
                    group.append(await members.join(rebalance_protocol=protocol))
                    await _all_owned(group)
        assert "do not agree on a protocol" in caplog.text, "while both are there the leader says so"
        assert {m.consumer.group_metadata().rebalance_protocol for m in group} == {"cooperative"}
        # All are cooperative now: a newcomer takes its share, and what is kept is not touched.
        await members.settled(*group, partitions=PARTITIONS)
        before = [len(member.heard.events) for member in group]
        newcomer = await members.join(rebalance_protocol="cooperative")
        await members.settled(*group, newcomer, partitions=PARTITIONS)
        heard = [event for m, known in zip(group, before, strict=True) for event in m.heard.events[known:]]
        assert {kind for kind, _ in heard} == {"revoked"}
        assert sum(len(partitions) for _, partitions in heard) == len(newcomer.owned)
        await load.finish()
        written = set(load.acked)
        await eventually(lambda: written <= set(members.seen()), deadline_s=SETTLE_S, what="all is read")
        assert set(members.seen().values()) == {1}
        assert all("lost" not in member.heard.kinds() for member in members.all)
        assert [member.errors for member in members.all] == [[] for _ in members.all]


async def _all_owned(group: list[Participant]) -> None:
    """Every partition has one owner. In a mixed group shares need not be even."""

    def owned() -> bool:
        each = [member.owned for member in group]
        same = len({member.generation for member in group}) == 1
        return same and sum(map(len, each)) == len(set().union(*each)) == PARTITIONS

    await eventually(owned, deadline_s=SETTLE_S, what="every partition has its owner")


@pytest.mark.parametrize("protocol", ["eager", "cooperative"])
async def test_a_static_member_comes_back_without_a_rebalance(cluster: MemoryCluster, protocol: str) -> None:
    """KIP-345, (G13) the same instance within its session has its partitions again, in the same
    generation, a leader too; no other member notices."""
    topic = await new_topic(cluster, 4)
    settings = {"session_timeout_ms": 30_000, "rebalance_protocol": protocol}
    async with Members(cluster, [topic], **settings) as members:
        leader = await members.join(group_instance_id="one")
        await members.settled(leader, partitions=4)
        other = await members.join(group_instance_id="two")
        await members.settled(leader, other, partitions=4)
        for instance, gone in (("two", other), ("one", leader)):
            stays = leader if gone is other else members.all[2]
            heard, generation, had = len(stays.heard.events), stays.generation, set(gone.owned)
            await members.leave(gone)
            assert gone.heard.kinds()[-1] == "revoked", "a close calls the listener of a static member too"
            back = await members.join(group_instance_id=instance)
            await members.settled(stays, back, partitions=4)
            assert back.owned == had and back.generation == generation
            assert len(stays.heard.events) == heard
            assert back.heard.kinds() == ["assigned"]


@pytest.mark.parametrize("protocol", ["eager", "cooperative"])
async def test_a_static_member_comes_back_for_another_topic(cluster: MemoryCluster, protocol: str) -> None:
    """docs/use/groups.md, "The end": what it gets at first was made for its former life; it does not take
    what it does not want, and the group rebalances."""
    old, new = await new_topic(cluster, 4), await new_topic(cluster, 4)
    settings = {"session_timeout_ms": 30_000, "rebalance_protocol": protocol}
    async with Members(cluster, [old], **settings) as members:
        stays = await members.join(group_instance_id="one")
        await members.settled(stays, partitions=4)
        gone = await members.join(group_instance_id="two")
        await members.settled(stays, gone, partitions=4)
        await members.leave(gone)
        members.topics = [new]
        back = await members.join(group_instance_id="two")
        await members.settled(stays, back, partitions=8)
        assert {name.topic for name in stays.owned} == {old}
        assert {name.topic for _, partitions in back.heard.events for name in partitions} == {new}


async def test_an_instance_that_is_taken_over_is_fenced(cluster: MemoryCluster) -> None:
    """(G1) of two with one instance name the later one continues; the earlier gets an error, and commits
    nothing."""
    topic = await new_topic(cluster, 2)
    async with Members(cluster, [topic], group_instance_id="twin") as members:
        first = await members.join()
        await members.settled(first, partitions=2)
        second = await members.join()
        await eventually(lambda: len(second.owned) == 2, deadline_s=SETTLE_S, what="the second has it all")
        await eventually(lambda: first.errors, deadline_s=SETTLE_S, what="the first has an error")
        assert type(first.errors[0]).__name__ == "FencedInstanceId"
        assert first.heard.kinds() == ["assigned", "lost"]


# --- a leader that does it wrong ------------------------------------------------------------------


class RawLeader:
    """A member without a consumer, which assigns what a test says."""

    def __init__(self, transport: Transport, address: str, group: str, topic: str) -> None:
        self._transport = transport
        self._address = address
        self._group = group
        self._metadata = Subscription(1, (topic,), (), -1, b"").encode()
        self.member = ""
        self.generation = -1

    async def _call(self, method: Method[Request, Response], request: Request) -> Response:
        return await self._transport.call(self._address, method, request, timeout_s=20)

    async def join(self) -> Joined:
        while True:
            protocols = (GroupProtocol("sticky", self._metadata),)
            request = JoinGroup(self._group, self.member, 10_000, 10_000, "consumer", protocols)
            answer = await self._call(JOIN_GROUP, request)
            self.member = answer.member
            if not isinstance(answer, MemberIdGiven):
                self.generation = answer.generation
                return answer

    async def assign(self, assignments: dict[str, Assignment]) -> None:
        encoded = {member: assignment.encode() for member, assignment in assignments.items()}
        request = SyncGroup(self._group, self.member, self.generation, "consumer", "sticky", encoded)
        _ = await self._call(SYNC_GROUP, request)

    async def rebalanced(self) -> None:
        """Heartbeat until a rebalance begins."""
        try:
            while True:
                await self._call(HEARTBEAT, Heartbeat(self._group, self.member, self.generation, None, 500))
        except RebalanceInProgress:
            return


async def _coordinator(transport: Transport, cluster: MemoryCluster, group: str) -> str:
    """Empty while the topic of the offsets is being created."""
    try:
        found = await transport.call(cluster.bootstrap.split(",")[0], FIND_COORDINATOR, group, timeout_s=10)
    except CoordinatorNotAvailable:
        return ""
    return found.address


async def test_an_assignment_that_takes_without_revoking_is_fatal(
    cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """KIP-429: assigned ⊉ owned − revoked means bugs, or members that do not belong together: the consumer
    says what it saw, leaves, and every get call raises it."""
    topic = await new_topic(cluster, 2)
    names = tuple(TopicPartition(topic, number) for number in range(2))
    group = new_group()
    transport = cluster.host.transport(None)
    settings = {**GROUP_SETTINGS, "rebalance_protocol": "cooperative"}
    try:
        address = await eventually(partial(_coordinator, transport, cluster, group))
        leader = RawLeader(transport, address, group, topic)
        _ = await leader.join()
        await leader.assign({leader.member: Assignment(1, ())})
        heard = RebalanceLog()
        async with (
            cluster.consumer(group_id=group, **settings) as consumer,
            asyncio.TaskGroup() as t,
        ):
            consumer.subscribe([topic], listener=heard)
            reading = t.create_task(_reads_until_it_fails(consumer))
            await leader.rebalanced()
            joined = await leader.join()
            (victim,) = {member.member for member in joined.members} - {leader.member}
            await leader.assign({leader.member: Assignment(1, ()), victim: Assignment(1, names)})
            await eventually(lambda: heard.owned() == set(names), what="it owns both")
            with caplog.at_level(logging.ERROR, "consumer"):
                consumer.subscribe([topic, "another"], listener=heard)
                await leader.rebalanced()
                _ = await leader.join()
                await leader.assign({leader.member: Assignment(1, ()), victim: Assignment(1, names[:1])})
                error = await reading
            assert f"{topic}-1" in str(error)
            assert f"{topic}-1" in caplog.text
            with pytest.raises(StrandlineError, match=f"{topic}-1"):
                await consumer.getone()
            assert consumer.assignment() == set()
            await leader.rebalanced()  # it has left
        assert heard.kinds() == ["assigned", "lost"]
    finally:
        await transport.close()


async def _reads_until_it_fails(consumer: Consumer) -> Exception:
    try:
        while True:
            _ = await consumer.getmany(timeout_ms=100)
    except StrandlineError as error:
        return error


async def read_in_all(members: Members, wanted: int) -> None:
    def read() -> bool:
        return sum(len(member.records) for member in members.all) >= wanted

    await eventually(read, deadline_s=SETTLE_S, what="reading continues")


@pytest.mark.parametrize("protocols", [["cooperative"], ["eager"], ["eager", "cooperative"]], ids="/".join)
async def test_members_come_and_go_at_random_and_each_record_is_read_once(
    cluster: MemoryCluster, protocols: list[str]
) -> None:
    """(G4, G6) closes and joins in the middle of rebalances, commits that cross them: nothing is read twice,
    nothing is lost, no error is raised. The seed is fixed, what the cluster makes of it is not."""
    random = Random(7)
    topic = await new_topic(cluster, PARTITIONS)
    async with loading(cluster, {topic: PARTITIONS}) as load, Members(cluster, [topic]) as members:
        live = [await members.join(rebalance_protocol=protocols[0])]
        for _ in range(25):
            if len(live) < 2 or (len(live) < 5 and random.random() < 0.5):
                live.append(await members.join(rebalance_protocol=random.choice(protocols)))
            else:
                await members.leave(live.pop(random.randrange(len(live))))
            wanted = sum(members.seen().values()) + random.choice([0, 0, 10, 100])
            await read_in_all(members, wanted)
        await load.finish()
        written = set(load.acked)
        await eventually(lambda: written <= set(members.seen()), deadline_s=SETTLE_S, what="all is read")
        assert set(members.seen().values()) == {1}
        assert all("lost" not in member.heard.kinds() for member in members.all)
        assert [member.errors for member in members.all] == [[] for _ in members.all]
