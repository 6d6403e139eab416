"""Groups as a coordinator describes them, for tests of those who look at them."""

from __future__ import annotations

from collections.abc import Mapping

from strandline.consumer.described.view import GroupView, group_view
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import CommittedOffset, DescribedGroup, DescribedMember
from strandline.vocabulary.log import ListedEpochEnd, ListedOffset
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.parsing.consumer_protocol import Assignment, Subscription

COORDINATOR = Endpoint(2, "broker2", 9092)


def member(
    name: str,
    *assigned: TopicPartition,
    version: int = 1,
    owned: tuple[TopicPartition, ...] | None = None,
    metadata: bytes | None = None,
) -> DescribedMember:
    """A member that owns what it is assigned, unless `owned` says otherwise."""
    return DescribedMember(
        name,
        f"client-{name}",
        "127.0.0.1",
        Subscription(version, ("t",)).encode() if metadata is None else metadata,
        Assignment(version, assigned).encode() if metadata is None else b"",
        owned=assigned if owned is None else owned,
    )


def described(*members: DescribedMember, protocol_type: str = "consumer") -> DescribedGroup:
    """A stable group of these members."""
    return DescribedGroup(
        "g", "Stable", 4, protocol_type, "sticky", "m1", members, "a member came", caused_by="m2"
    )


def viewed(
    group: DescribedGroup,
    committed: Mapping[TopicPartition, CommittedOffset] | None = None,
    ends: Mapping[TopicPartition, int | ListedOffset] | None = None,
    epoch_ends: Mapping[TopicPartition, ListedEpochEnd] | None = None,
) -> GroupView:
    """The view of the group with these offsets."""
    listed = {
        name: end if isinstance(end, ListedOffset) else ListedOffset(name, offset=end)
        for name, end in (ends or {}).items()
    }
    return group_view(group, COORDINATOR, committed or {}, listed, epoch_ends or {})
