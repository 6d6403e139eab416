"""The writes to ZooKeeper by which a leader gives its leadership up, as operations of a `multi`."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.adapters.zookeeper import queue_znodes, znodes
from strandline.broker.replicas.replica import Replica
from strandline.ids import BrokerId, LeaderEpoch
from strandline.ports import Create, Delete, Operation, SetData
from strandline.vocabulary.metadata import PartitionState


def fence_operations(
    replica: Replica, after: PartitionState, version: int, *, leader_node_stands: bool = True
) -> list[Operation]:
    """Write `after`, in which nobody leads, over the `isr` of this version, and be no leader any more."""
    name = replica.name
    operations: list[Operation] = [
        SetData(znodes.isr(name.topic, name.partition), znodes.dump_isr(after), version),
        znodes.of_incarnation(replica.key.topic_id),
    ]
    if leader_node_stands:
        operations.append(Delete(znodes.leader(name.topic, name.partition)))
    return operations


def notice_operation(
    next_leader: BrokerId, ended: Iterable[tuple[Replica, LeaderEpoch]], reason: str
) -> Operation:
    """Tell `next_leader` that these have no leader since their epochs ended."""
    notices = [
        queue_znodes.ElectionNotice(replica.name.topic, replica.key, epoch, reason=reason)
        for replica, epoch in ended
    ]
    prefix = znodes.election_notice_prefix(next_leader)
    return Create(prefix, queue_znodes.dump_notices(notices), sequential=True)


def resign_operations(
    replica: Replica, after: PartitionState, version: int, next_leader: BrokerId | None, reason: str
) -> list[Operation]:
    """All that a leader writes who steps down on purpose."""
    operations = fence_operations(replica, after, version)
    if next_leader is not None:
        operations.append(notice_operation(next_leader, [(replica, after.leader_epoch)], reason))
    return operations
