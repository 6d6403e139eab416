"""Which members may commit and read offsets (KIP-848).

A member commits in its present epoch. It may not know of that yet: in an older one, it commits for those
partitions that it has had ever since (KIP-1251), so no commit fails because others join. The generation of a
member of the classic protocol is its epoch: it has no other one.
"""

from __future__ import annotations

from collections.abc import Iterable

from strandline.broker.core.consumer_groups.group import ConsumerGroup
from strandline.broker.core.consumer_groups.member import ConsumerMember
from strandline.errors import IllegalGeneration, NoRoomForEpoch, StaleMemberEpoch, UnknownMemberId
from strandline.ids import PartitionId, PartitionKey, TopicPartition


def fence_commit(
    group: ConsumerGroup, member_id: str, epoch: int, names: Iterable[TopicPartition], *, knows_epochs: bool
) -> None:
    """`knows_epochs`: the request has room for an epoch. Raises UnknownMemberId, StaleMemberEpoch; for
    members of the classic protocol IllegalGeneration."""
    member = _member(group, member_id)
    if member.classic is not None:
        check_generation(member, epoch)
        return
    if not knows_epochs:
        raise NoRoomForEpoch(f"member {member_id!r} has an epoch: it commits by OffsetCommit 9 or later")
    if epoch == member.epoch:
        return
    older = 0 <= epoch < member.epoch
    if not older or not all(_has_since(group, member, name, epoch) for name in names):
        raise StaleMemberEpoch(f"member {member_id!r} commits in epoch {epoch}, and is in {member.epoch}")


def fence_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
    """A client that names no member is outside the group. Raises UnknownMemberId, StaleMemberEpoch,
    IllegalGeneration."""
    if member_id is None and epoch < 0:
        return
    member = _member(group, member_id or "")
    if member.classic is not None:
        check_generation(member, epoch)
    if epoch != member.epoch:
        raise StaleMemberEpoch(f"member {member_id!r} asks in epoch {epoch}, and is in {member.epoch}")


def check_generation(member: ConsumerMember, generation: int) -> None:
    """Raises IllegalGeneration for a member of the classic protocol with another generation."""
    if generation != member.epoch:
        raise IllegalGeneration(
            f"member {member.member!r} speaks of generation {generation}, and is in {member.epoch}"
        )


def _member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMemberId(f"the group has no member {member_id!r}")
    return member


def _has_since(group: ConsumerGroup, member: ConsumerMember, name: TopicPartition, epoch: int) -> bool:
    topic = group.topics.get(name.topic)
    if topic is None:
        return False
    assigned = member.assigned.get(PartitionKey(topic.topic_id, PartitionId(name.partition)))
    return assigned is not None and assigned <= epoch
