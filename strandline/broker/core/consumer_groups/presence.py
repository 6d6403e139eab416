"""Who is in a group: whether there is room for one more, and which member an instance is."""

from __future__ import annotations

from strandline.broker.core.consumer_groups.group import ConsumerGroup
from strandline.errors import FencedInstanceId, GroupMaxSizeReached, UnknownMemberId


def check_room(group: ConsumerGroup, members_max: int) -> None:
    """Raises GroupMaxSizeReached if the group may not have one more member."""
    if len(group.members) >= members_max:
        raise GroupMaxSizeReached(
            f"the group has {len(group.members)} members; it may have {members_max}", limit=members_max
        )


def check_instance(group: ConsumerGroup, instance: str, member_id: str) -> None:
    """Raises UnknownMemberId, and FencedInstanceId for a member whose instance is another one by now
    (KIP-345)."""
    current = group.statics.get(instance)
    if current is None:
        raise UnknownMemberId(f"the group has no instance {instance!r}")
    if current != member_id:
        raise FencedInstanceId(f"instance {instance!r} is member {current!r} now, not {member_id!r}")
