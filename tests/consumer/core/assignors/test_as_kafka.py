"""Range and round-robin give what Kafka's clients give, so that any of them may lead the group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from aiokafka.protocol.metadata import MetadataResponse_v0
from hypothesis import given, settings
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor as PythonAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor as PythonRange
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as PythonRoundRobin
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from strandline.consumer.core.assignors.assignor import Assignor, MemberSubscription, in_order
from strandline.consumer.core.assignors.range import RangeAssignor
from strandline.consumer.core.assignors.round_robin import RoundRobinAssignor
from strandline.ids import TopicPartition
from tests.consumer.core.assignors.groups import Group, groups


def theirs(assignor: type[AbstractPartitionAssignor], group: Group) -> dict[str, list[TopicPartition]]:
    """The result of aiokafka's assignor, which knows no static members. It leaves out empty topics."""
    topics = [
        (0, topic, [(0, number, 1, [1], [1]) for number in range(count)])
        for topic, count in group.partitions.items()
        if count
    ]
    cluster = ClusterMetadata()
    cluster.update_metadata(MetadataResponse_v0([(1, "host", 9092)], topics))
    members = {
        member: ConsumerProtocolMemberMetadata(0, list(said.topics), b"")
        for member, said in group.members.items()
    }
    return {
        member: sorted(TopicPartition(*name) for name in answer.partitions())
        for member, answer in assignor.assign(cluster, members).items()
    }


@pytest.mark.parametrize(
    ("ours", "kafkas"),
    [(RangeAssignor(), RangePartitionAssignor), (RoundRobinAssignor(), RoundRobinPartitionAssignor)],
    ids=["range", "roundrobin"],
)
@settings(deadline=None)  # a machine under load is no failure
@given(group=groups())
def test_ours_and_theirs_agree_to_the_partition(
    ours: Assignor, kafkas: type[AbstractPartitionAssignor], group: Group
) -> None:
    dynamic = {member: MemberSubscription(said.topics) for member, said in group.members.items()}
    group = Group(dynamic, group.partitions)
    assert ours.assign(group.members, group.partitions) == theirs(kafkas, group)


@dataclass(frozen=True)
class PythonMember:
    """A member as kafka-python's assignors see it."""

    member_id: str
    group_instance_id: str | None
    metadata: ConsumerProtocolSubscription


@dataclass(frozen=True)
class PythonCluster:
    """The partitions of each topic as kafka-python's assignors look them up."""

    partitions: Mapping[str, int]

    def partitions_for_topic(self, topic: str) -> list[int] | None:
        count = self.partitions.get(topic, 0)
        return list(range(count)) if count else None


def python_s(assignor: type[PythonAssignor], group: Group) -> dict[str, list[TopicPartition]]:
    """The result of kafka-python's assignor. It wants static members first."""
    members = [
        PythonMember(
            name,
            group.members[name].instance,
            ConsumerProtocolSubscription(0, list(group.members[name].topics)),
        )
        for name in in_order(group.members)
    ]
    answers = assignor.assign(PythonCluster(group.partitions), members)
    return {
        name: sorted(TopicPartition(*one) for one in answer.partitions()) for name, answer in answers.items()
    }


@settings(deadline=None)
@given(group=groups())
def test_range_agrees_with_static_members_too(group: Group) -> None:
    """KIP-345: static members come first, by instance."""
    ours = RangeAssignor().assign(group.members, group.partitions)
    assert ours == python_s(PythonRange, group)


@settings(deadline=None)
@given(group=groups())
def test_round_robin_agrees_with_static_members_too(group: Group) -> None:
    """The same, where all subscribe to the same: kafka-python 3.0 cannot skip a member."""
    topics = tuple(sorted(group.partitions))
    members = {name: replace(said, topics=topics) for name, said in group.members.items()}
    group = Group(members, {topic: count for topic, count in group.partitions.items() if count})
    ours = RoundRobinAssignor().assign(group.members, group.partitions)
    assert ours == (python_s(PythonRoundRobin, group) if members else {})


def test_range_gives_partitions_of_one_number_to_one_member() -> None:
    """Topics that are keyed alike meet; what is left over goes to the first, of each topic again."""
    members = {"m0": MemberSubscription(("t0", "t1")), "m1": MemberSubscription(("t0", "t1"))}
    assert RangeAssignor().assign(members, {"t0": 3, "t1": 3}) == {
        "m0": [("t0", 0), ("t0", 1), ("t1", 0), ("t1", 1)],
        "m1": [("t0", 2), ("t1", 2)],
    }


def test_round_robin_skips_members_without_a_subscription() -> None:
    """And does not make up to them: m2 has most because it alone reads t2."""
    members = {
        "m0": MemberSubscription(("t0",)),
        "m1": MemberSubscription(("t0", "t1")),
        "m2": MemberSubscription(("t0", "t1", "t2")),
    }
    assert RoundRobinAssignor().assign(members, {"t0": 1, "t1": 2, "t2": 3}) == {
        "m0": [("t0", 0)],
        "m1": [("t1", 0)],
        "m2": [("t1", 1), ("t2", 0), ("t2", 1), ("t2", 2)],
    }
