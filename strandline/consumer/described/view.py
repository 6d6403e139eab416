"""A group as its members understand it: from the answers of its coordinator, and of its partitions' leaders.
Pure.

The coordinator knows the members, and the bytes that they exchange; the members' own protocol gives the bytes
their meaning. A group whose members follow both rebalance protocols works, but stays in the middle of an
upgrade until an operator completes it (KIP-429, case 3.b). So the view names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from strandline.errors import InconsistentGroupProtocol
from strandline.ids import NO_EPOCH, TopicPartition
from strandline.vocabulary.groups import CLASSIC, CONSUMER, CommittedOffset, DescribedGroup, DescribedMember
from strandline.vocabulary.log import ListedEpochEnd, ListedOffset
from strandline.vocabulary.log_position import Match, compare, same_topic
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.parsing.consumer_protocol import DRAFT_VERSION, Assignment, Subscription

CONSUMERS: Final = "consumer"
"""The protocol type of groups whose bytes are those of `strandline.vocabulary.parsing.consumer_protocol`."""
EAGER: Final = "eager"
COOPERATIVE: Final = "cooperative"
ANOTHER_TOPIC: Final = "of a deleted topic"
"""The commit has the id of another topic than has the name now."""
BEYOND_END: Final = "beyond the end"
"""The log lost its end in an unclean election, or a client committed what it had not read."""
CUT: Final = "of records that were lost"
"""The log lost the record before it in an election with a loss, and has grown again."""
BEFORE_START: Final = "before the start"
"""Records that the group has not read were deleted."""
STABLE: Final = "Stable"
"""The state of a group whose members may have their assignments."""


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member, with its decoded bytes: None if they are empty, as while a generation forms.

    `assigned` is what the leader gave it, `owned` what it reported as taken. They differ until the member has
    followed the assignment. Members that report nothing, as Kafka's clients, own what they are assigned
    (`_owned`).
    """

    member: str
    instance: str | None
    client_id: str
    host: str
    rebalance_protocol: str | None
    topics: tuple[str, ...] | None
    assigned: tuple[TopicPartition, ...] | None
    owned: tuple[TopicPartition, ...]
    epoch: int = 0
    """Of a member whose coordinator assigns; 0 of others."""
    revoking: tuple[TopicPartition, ...] = ()
    """What it has yet to give up."""
    protocol: str = CLASSIC
    """Classic or consumer: a group whose coordinator assigns may have members of both."""

    @property
    def name(self) -> str:
        """The member for people: its id alone is not enough."""
        return f"{self.member} (client {self.client_id} at {self.host})"


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition that the group has read or has assigned to a member; None is unknown.

    `end` is the high watermark, `start` the log's first offset. `owner` owns the partition; `assigned_to` has
    not reported it yet. `of_topic` is false if the commit is one of another topic that had the name.
    `cut` is true if the log has lost the record before the commit.
    """

    name: TopicPartition
    committed: int | None
    end: int | None
    owner: str | None
    assigned_to: str | None
    start: int | None = None
    of_topic: bool = True
    cut: bool = False

    @property
    def lag(self) -> int | None:
        """The number of committed records from the committed offset on that are still there. None for a
        commit of another topic: it counts as absent."""
        if self.committed is None or self.end is None or not self.of_topic:
            return None
        return max(0, self.end - max(self.committed, self.start or 0))

    @property
    def note(self) -> str:
        """Why the commit is no place in this log, if it is none."""
        if self.committed is None:
            return ""
        if not self.of_topic:
            return ANOTHER_TOPIC
        if self.end is not None and self.committed > self.end:
            return BEYOND_END
        if self.start is not None and self.committed < self.start:
            return BEFORE_START
        return CUT if self.cut else ""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group with its coordinator, its members and its partitions."""

    group: DescribedGroup
    coordinator: Endpoint
    members: tuple[MemberView, ...]
    partitions: tuple[PartitionView, ...]

    @property
    def sides(self) -> Mapping[str, tuple[str, ...]]:
        """The members of each rebalance protocol, by its name."""
        return {
            protocol: tuple(m.member for m in self.members if m.rebalance_protocol == protocol)
            for protocol in (EAGER, COOPERATIVE)
        }

    @property
    def mixed(self) -> bool:
        return all(self.sides.values())

    @property
    def waits_for(self) -> tuple[MemberView, ...]:
        """The members that have yet to give partitions up: others wait for these."""
        return tuple(member for member in self.members if member.revoking)

    @property
    def lag(self) -> int | None:
        """The lag of all partitions together; None if one is unknown, or if there is none yet: a group exists
        before its first member does."""
        return _sum_of_lags(self.partitions)


def member_view(member: DescribedMember, group: DescribedGroup) -> MemberView:
    """A member with its bytes decoded; if they cannot be decoded, the other facts are still shown."""
    if group.type == CONSUMER:
        return _assigned_member(member)
    topics = protocol = assigned = subscription = None
    if group.protocol_type == CONSUMERS:
        with suppress(InconsistentGroupProtocol):
            subscription = Subscription.decode(member.metadata)
            topics = subscription.topics
            protocol = COOPERATIVE if subscription.cooperative(group.protocol) else EAGER
        with suppress(InconsistentGroupProtocol):
            assigned = tuple(sorted(Assignment.decode(member.assignment).assigned))
    return MemberView(
        member.member,
        member.instance,
        member.client_id,
        member.host,
        protocol,
        topics,
        assigned,
        tuple(sorted(member.owned)) or _owned(subscription, assigned, group),
    )


def _assigned_member(member: DescribedMember) -> MemberView:
    """Of a group whose coordinator assigns: it names everything."""
    return MemberView(
        member.member,
        member.instance,
        member.client_id,
        member.host,
        None,
        member.topics,
        tuple(sorted(member.target)),
        tuple(sorted(member.owned)),
        member.epoch,
        tuple(sorted(member.revoking)),
        CLASSIC if member.classic else CONSUMER,
    )


def _owned(
    subscription: Subscription | None, assigned: tuple[TopicPartition, ...] | None, group: DescribedGroup
) -> tuple[TopicPartition, ...]:
    """What a member owns that has reported nothing.

    Only the draft assigns partitions that their last owner still has. In the other forms a partition is free
    before it is assigned, so the member owns it. An eager member gives all up before it joins again.
    """
    if subscription is None or subscription.version == DRAFT_VERSION or assigned is None:
        return ()
    keeps = group.state == STABLE or subscription.cooperative(group.protocol)
    return assigned if keeps else ()


def members_of(group: DescribedGroup) -> tuple[MemberView, ...]:
    """The members, sorted by id."""
    members = (member_view(member, group) for member in group.members)
    return tuple(sorted(members, key=lambda member: member.member))


def partitions_of(
    members: Iterable[MemberView], committed: Mapping[TopicPartition, CommittedOffset]
) -> list[TopicPartition]:
    """All partitions that the group reads or has read."""
    taken = {name for member in members for name in (*member.owned, *(member.assigned or ()))}
    return sorted(taken | committed.keys())


def group_view(
    group: DescribedGroup,
    coordinator: Endpoint,
    committed: Mapping[TopicPartition, CommittedOffset],
    ends: Mapping[TopicPartition, ListedOffset],
    epoch_ends: Mapping[TopicPartition, ListedEpochEnd],
) -> GroupView:
    """Combines the answers of coordinator and leaders; `ends` lacks leaders that could not be asked.
    `epoch_ends`: of the epochs of the commits."""
    members = members_of(group)
    owners = {name: member.member for member in members for name in member.owned}
    assigned = {name: member.member for member in members for name in member.assigned or ()}
    partitions = tuple(
        _partition_view(
            name,
            committed.get(name),
            ends.get(name),
            owners.get(name),
            assigned.get(name),
            epoch_ends.get(name),
        )
        for name in partitions_of(members, committed)
    )
    return GroupView(group, coordinator, members, partitions)


def lag_of(
    committed: Mapping[TopicPartition, CommittedOffset], ends: Mapping[TopicPartition, ListedOffset]
) -> int | None:
    """The lag in all partitions in which something is committed; None as in GroupView."""
    return _sum_of_lags(
        [_partition_view(name, at, ends.get(name), None, None, None) for name, at in committed.items()]
    )


def _sum_of_lags(partitions: Sequence[PartitionView]) -> int | None:
    lags = [partition.lag for partition in partitions]
    known = [lag for lag in lags if lag is not None]
    return sum(known) if lags and len(known) == len(lags) else None


def _partition_view(
    name: TopicPartition,
    committed: CommittedOffset | None,
    found: ListedOffset | None,
    owner: str | None,
    assigned_to: str | None,
    epoch_end: ListedEpochEnd | None,
) -> PartitionView:
    offset = None if committed is None else committed.offset
    if found is None:
        return PartitionView(name, offset, None, owner, assigned_to)
    start = None if found.log_start_offset < 0 else found.log_start_offset
    of_topic = committed is None or same_topic(committed.topic_id, found.topic_id)
    cut = _is_cut(committed, epoch_end)
    return PartitionView(name, offset, found.offset, owner, assigned_to, start, of_topic, cut)


def _is_cut(committed: CommittedOffset | None, end: ListedEpochEnd | None) -> bool:
    """True if the log has lost the record before the commit. An epoch that the log cannot place may be of
    records that were deleted."""
    if committed is None or end is None or end.epoch == NO_EPOCH:
        return False
    return compare(committed.position, end.topic_id, end.end) is Match.CUT


def mixed_advice(view: GroupView) -> str:
    """What to know of a mixed group: which members use which protocol, and how to complete the upgrade."""
    eager, cooperative = (", ".join(view.sides[side]) for side in (EAGER, COOPERATIVE))
    return (
        f"the members of group {view.group.group} follow both rebalance protocols. "
        f"Eager: {eager}. Cooperative: {cooperative}. No partition moves away from a cooperative member, so "
        "shares may be uneven, until the upgrade is finished: restart each eager member with "
        "rebalance_protocol=cooperative"
    )
