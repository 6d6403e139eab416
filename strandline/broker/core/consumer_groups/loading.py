"""Makes a group from the records of the log, in its order."""

from __future__ import annotations

from dataclasses import replace

from strandline.broker.core.consumer_groups.group import ConsumerGroup
from strandline.broker.core.consumer_groups.member import ConsumerMember
from strandline.broker.core.consumer_groups.records import (
    MEMBER,
    PATTERN,
    TARGET,
    ConsumerRecord,
    CurrentValue,
    EpochValue,
    MemberValue,
    PatternValue,
    TargetEpochValue,
    TargetValue,
)


def load(group: ConsumerGroup, record: ConsumerRecord) -> None:
    """Replays one record. In a compacted log, records of a member may be in any order, and some may be
    missing."""
    key, member_id = record.key, record.key.subject
    match record.value:
        case EpochValue(epoch, topics_hash):
            group.epoch, group.stored_hash = epoch, topics_hash
        case TargetEpochValue(epoch, _):
            group.target_epoch = epoch
        case TargetValue(partitions):
            group.targets[member_id] = partitions
        case PatternValue(topics, _, _):
            group.resolve(key.subject, topics)
        case MemberValue() as said:
            group.put(
                replace(
                    group.members.get(member_id) or ConsumerMember(member_id),
                    instance=said.instance,
                    rack=said.rack,
                    client_id=said.client_id,
                    host=said.host,
                    topics=said.topics,
                    pattern=said.pattern,
                    rebalance_timeout_ms=said.rebalance_timeout_ms,
                    assignor=said.assignor,
                    classic=said.classic,
                )
            )
        case CurrentValue() as current:
            group.put(
                replace(
                    group.members.get(member_id) or ConsumerMember(member_id),
                    epoch=current.epoch,
                    previous_epoch=current.previous_epoch,
                    state=current.state,
                    assigned=current.assigned,
                    revoking=current.revoking,
                )
            )
        case None if key.type == MEMBER and member_id in group.members:
            group.remove(member_id)
        case None if key.type == TARGET:
            group.targets.pop(member_id, None)
        case None if key.type == PATTERN:
            group.resolve(key.subject, None)


def loaded(group: ConsumerGroup) -> None:
    """The log is read to its end. Members without a record of what they say are none: their tombstones were
    compacted away."""
    unsaid = [member.member for member in group.members.values() if member.rebalance_timeout_ms < 0]
    for member_id in unsaid:
        group.remove(member_id)
    for pattern in group.unused_patterns():
        group.resolve(pattern, None)
    for member_id in [member_id for member_id in group.targets if member_id not in group.members]:
        del group.targets[member_id]
