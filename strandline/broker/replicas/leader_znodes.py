"""Builds the operations of a `multi` by which a leader resigns."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes, queue_znodes
from strandline.broker.replicas.local_replica import LocalReplica
from strandline.ids import BrokerId, LeaderEpoch
from strandline.ports import Create, Delete, Operation, SetData
from strandline.vocabulary.metadata import PartitionState


def fence_operations(
    replica: LocalReplica, after: PartitionState, version: int, *, leader_node_stands: bool = True
) -> list[Operation]:
    """Writes `after`, which has no leader, over this version of `isr`, and removes the leader's own znode."""
    name = replica.name
    operations: list[Operation] = [
        SetData(znodes.isr(name.topic, name.partition), isr_znodes.dump_isr(after), version),
        znodes.of_incarnation(replica.key.topic_id),
    ]
    if leader_node_stands:
        operations.append(Delete(znodes.leader(name.topic, name.partition)))
    return operations


def notice_operation(
    next_leader: BrokerId, ended: Iterable[tuple[LocalReplica, LeaderEpoch]], reason: str
) -> Operation:
    """Notifies `next_leader` that these partitions have no leader since their epochs ended."""
    notices = [
        queue_znodes.ElectionNotice(replica.name.topic, replica.key, epoch, reason=reason)
        for replica, epoch in ended
    ]
    prefix = znodes.election_notice_prefix(next_leader)
    return Create(prefix, queue_znodes.dump_notices(notices), sequential=True)


def resign_operations(
    replica: LocalReplica, after: PartitionState, version: int, next_leader: BrokerId | None, reason: str
) -> list[Operation]:
    """All operations of a leader that resigns."""
    operations = fence_operations(replica, after, version)
    if next_leader is not None:
        operations.append(notice_operation(next_leader, [(replica, after.leader_epoch)], reason))
    return operations
