"""A group whose coordinator assigns, in the words in which all groups are described."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from strandline.broker.core.groups.state.subscriptions import CONSUMERS
from strandline.ids import PartitionKey, TopicId, TopicPartition
from strandline.vocabulary.groups import (
    CONSUMER,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedMember,
)


def as_group(found: DescribedConsumerGroup) -> DescribedGroup:
    """It has no leader, and no bytes of members."""
    return DescribedGroup(
        found.group,
        found.state,
        found.epoch,
        CONSUMERS,
        found.assignor,
        "",
        tuple(_as_member(member, found.names) for member in found.members),
        found.reason,
        found.caused_by,
        CONSUMER,
        found.target_epoch,
    )


def _as_member(member: DescribedConsumer, names: Mapping[TopicId, str]) -> DescribedMember:
    def named(keys: Iterable[PartitionKey]) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition(names[key.topic_id], key.partition) for key in keys)

    return DescribedMember(
        member.member,
        member.client_id,
        member.host,
        b"",
        b"",
        member.instance,
        named((*member.assigned, *member.revoking)),
        member.epoch,
        member.topics,
        named(member.target),
        named(member.revoking),
        member.classic,
    )
