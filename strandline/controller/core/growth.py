"""Decides which brokers get the partitions that are added to a topic, and when none can be added."""

from __future__ import annotations

from collections.abc import Sequence

from strandline.controller.core.cluster import ClusterPicture
from strandline.controller.core.placement import ReplicaAssignment, place
from strandline.controller.core.topics import Brokers, check_assignments, check_load, check_partitions
from strandline.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidTopic,
)
from strandline.ids import INTERNAL_PREFIX


def plan_growth(
    name: str,
    *,
    now: int,
    wanted: int,
    replication_factor: int,
    assignments: Sequence[Sequence[int]],
    brokers: Brokers,
    picture: ClusterPicture,
) -> tuple[ReplicaAssignment, ...]:
    """The assignments of the partitions from `now` to `wanted`, placed like those of a new topic.

    Raises InvalidTopic, InvalidPartitions, InvalidReplicaAssignment, InvalidReplicationFactor.
    """
    if name.startswith(INTERNAL_PREFIX):
        raise InvalidTopic(f"topic {name!r} is the system's own: what is where in it hangs on its size")
    check_partitions(name, wanted)
    if wanted < now:
        raise InvalidPartitions(
            f"topic {name!r} has {now} partitions, {wanted} are fewer: partitions cannot be taken away",
            limit=now,
        )
    added = wanted - now
    if assignments and len(assignments) != added:
        raise InvalidReplicaAssignment(
            f"topic {name!r} gets {added} more partitions, but assignments are given for {len(assignments)}"
        )
    if not added:
        return ()
    if assignments:
        placed = check_assignments(name, assignments, brokers, replication_factor, first=now)
    else:
        placed = _place(name, added, replication_factor, brokers, picture)
    check_load(name, placed, picture)
    return placed


def _place(
    name: str, added: int, replication_factor: int, brokers: Brokers, picture: ClusterPicture
) -> tuple[ReplicaAssignment, ...]:
    hosts = [broker.endpoint for broker in brokers.hosts]
    if len(hosts) < replication_factor:
        raise InvalidReplicationFactor(
            f"topic {name!r} has {replication_factor} replicas of a partition, but {len(hosts)} "
            f"{'broker is' if len(hosts) == 1 else 'brokers are'} {brokers.hosting}",
            limit=len(hosts),
        )
    return place(
        hosts,
        partitions=added,
        replication_factor=replication_factor,
        first=picture.placed,
        load=picture.replicas,
    )
