"""Assignors of a user's own with a real coordinator, and rebalances that an application asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest

from strandline import TopicPartition
from strandline.consumer.core.assignors.assignor import MemberSubscription
from strandline.consumer.core.assignors.registry import BUILT_IN
from strandline.errors import InvalidRequest
from strandline.testing import MemoryCluster
from tests.integration.groups.support.group_members import SETTLE_S, Members, Participant, write
from tests.waiting import eventually

pytestmark = pytest.mark.slow

TOPIC = "moves"
PARTITIONS = 4


class Handing:
    """Shares evenly at first; then a partition goes to the member that reports to be ready for it, once
    its owner has released it before a join. Each member gets all reports of readiness."""

    def __init__(self) -> None:
        self.name = "handing"
        self.ready: set[int] = set()
        self.wanted_by_others: frozenset[TopicPartition] = frozenset()
        self.log: list[str] = []
        """With what the listener hears."""
        self.plans = 0

    def assign(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        answer = BUILT_IN["sticky"].assign(members, partitions)
        owned = {name for said in members.values() for name in said.owned}
        for member, said in members.items():
            for number in said.user_data:
                name = TopicPartition(TOPIC, number)
                if name not in owned:
                    for given in answer.values():
                        if name in given:
                            given.remove(name)
                    answer[member].append(name)
        return answer

    def assign_with_user_data(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> tuple[dict[str, list[TopicPartition]], dict[str, bytes]]:
        self.plans += 1
        everybody = bytes(sorted({number for said in members.values() for number in said.user_data}))
        return self.assign(members, partitions), dict.fromkeys(members, everybody)

    def subscription_user_data(self) -> bytes:
        return bytes(sorted(self.ready))

    def release_before_join(self) -> frozenset[TopicPartition]:
        return self.wanted_by_others

    def on_assignment(self, user_data: bytes, assigned: frozenset[TopicPartition], generation: int) -> None:
        """This member's partitions for which others are ready are released before the next join."""
        self.log.append(f"noted {list(user_data)} in {generation}")
        wanted = {TopicPartition(TOPIC, number) for number in user_data if number not in self.ready}
        self.wanted_by_others = assigned & wanted


@pytest.fixture
async def own() -> AsyncIterator[MemoryCluster]:
    """One broker, for one test."""
    async with MemoryCluster(brokers=1) as cluster:
        await cluster.create_topic(TOPIC, PARTITIONS)
        yield cluster


async def joined(members: Members) -> tuple[Participant, Handing]:
    assignor = Handing()
    participant = await members.join(assignors=[assignor])

    async def note(kind: str, partitions: set[TopicPartition]) -> None:
        assignor.log.append(f"{kind} {sorted(partition.partition for partition in partitions)}")

    participant.heard.before = note
    return participant, assignor


async def test_a_partition_goes_to_its_ready_member_in_one_rebalance(own: MemoryCluster) -> None:
    """KIP-568: its owner hears that another one is ready, gives it up before it joins, and has committed all
    of it; the other one reads on from there. Neither reads anything twice."""
    async with Members(own, [TOPIC], rebalance_protocol="cooperative") as members:
        (one, ones), (other, others) = await joined(members), await joined(members)
        await members.settled(one, other, partitions=PARTITIONS)
        moving = min(one.owned)
        await write(own, TOPIC, moving.partition, 5)
        await eventually(lambda: len(one.records) == 5, what="its owner reads it")
        generation = one.generation
        plans = ones.plans + others.plans

        others.ready = {moving.partition}
        other.consumer.enforce_rebalance("another member is ready")
        noted = f"noted [{moving.partition}] in {generation + 1}"
        await eventually(lambda: noted in ones.log and noted in others.log, what="all know who is ready")
        assert moving in one.owned, "no member released a partition yet"
        assert ones.plans + others.plans == plans + 1

        ones.log.clear()
        others.log.clear()
        one.consumer.enforce_rebalance("what others are ready for may go")
        await eventually(lambda: moving in other.owned, deadline_s=SETTLE_S, what="it has moved")
        again = f"noted [{moving.partition}] in {generation + 2}"
        await eventually(lambda: again in ones.log, what="its owner of before has heard of it")
        assert ones.log == [f"revoked [{moving.partition}]", again], "before the join, and only that"
        assert others.log == [again, f"assigned [{moving.partition}]"], "the assignor hears of it first"
        assert (one.generation, other.generation) == (generation + 2, generation + 2)
        assert ones.plans + others.plans == plans + 2
        await write(own, TOPIC, moving.partition, 1)
        await eventually(lambda: other.records, what="the other one reads on")
        assert [(record.partition, record.offset) for record in other.records] == [(moving.partition, 5)]
        assert one.errors == other.errors == []


async def test_requests_during_a_rebalance_cause_one_more(own: MemoryCluster) -> None:
    """However many there are; and the group gets the reason."""
    async with Members(own, [TOPIC], rebalance_protocol="cooperative") as members:
        (one, ones), (other, others) = await joined(members), await joined(members)
        await members.settled(one, other, partitions=PARTITIONS)
        generation = one.generation
        blocked, go_on = asyncio.Event(), asyncio.Event()

        async def hold_up(kind: str, partitions: set[TopicPartition]) -> None:
            blocked.set()
            await go_on.wait()

        one.heard.before = hold_up
        ones.wanted_by_others = frozenset([min(one.owned)])
        one.consumer.enforce_rebalance("the first")
        await blocked.wait()
        for _ in range(3):
            one.consumer.enforce_rebalance("the second")
        go_on.set()
        noted = f"noted [] in {generation + 2}"
        await eventually(
            lambda: noted in ones.log and noted in others.log, deadline_s=SETTLE_S, what="one more"
        )
        await members.settled(one, other, partitions=PARTITIONS)
        async with own.admin() as admin:
            group = await admin.describe_group(members.group)
        assert group.group.state == "Stable" and "the second" in group.group.reason
        assert one.generation == other.generation == generation + 2
    for member in (one, other):
        with pytest.raises(InvalidRequest, match="stopped"):
            member.consumer.enforce_rebalance("too late")
