"""A group as administrators see it."""

from __future__ import annotations

from collections.abc import Iterable, Set

from strandline.broker.core.consumer_groups.group import ConsumerGroup
from strandline.broker.core.consumer_groups.member import ConsumerMember
from strandline.broker.core.consumer_groups.target import assignor_of
from strandline.ids import PartitionKey, TopicId
from strandline.vocabulary.groups import DescribedConsumer, DescribedConsumerGroup


def described(name: str, group: ConsumerGroup) -> DescribedConsumerGroup:
    names = group.names()
    return DescribedConsumerGroup(
        name,
        group.state.value,
        group.epoch,
        group.target_epoch,
        assignor_of(group),
        tuple([_member(group, member, names.keys()) for _, member in sorted(group.members.items())]),
        names,
        group.reason,
        group.caused_by,
    )


def _member(group: ConsumerGroup, member: ConsumerMember, there: Set[TopicId]) -> DescribedConsumer:
    def sorted_of(keys: Iterable[PartitionKey]) -> tuple[PartitionKey, ...]:
        return tuple(sorted(key for key in keys if key.topic_id in there))

    return DescribedConsumer(
        member.member,
        member.epoch,
        member.state.name.lower(),
        member.client_id,
        member.host,
        member.topics,
        sorted_of(member.assigned),
        sorted_of(group.target_of(member.member)),
        sorted_of(member.revoking),
        member.instance,
        member.rack,
        member.pattern,
        member.classic is not None,
    )
