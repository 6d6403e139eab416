"""Decides how the leader of a partition carries out a reassignment (Kafka's design V3).

    catching up   AR is the original with RAR behind it; every replica may join the ISR
    closing       every member of RAR is in sync: AR − RAR is asked to close, may no longer join the
                  ISR, and leaves it as soon as it stops fetching
    completing    RAR is in sync, and no replica of AR − RAR but the leader is: AR becomes RAR, and the
                  leader gives up the leadership if it is not to keep it

A cancelled reassignment takes the same steps with the original in place of RAR. Dead replicas of the
original do not hold it up: it completes as soon as enough of the original is in sync.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from strandline.ids import BrokerId
from strandline.vocabulary.metadata import IsrMember, Reassignment, Registration


@dataclass(frozen=True, slots=True)
class PartitionAssignment:
    """The replicas of a partition as ZooKeeper holds them. The versions are for compare-and-set."""

    replicas: tuple[BrokerId, ...] = ()
    """AR; during a reassignment, with the replicas that it adds."""
    version: int = -1
    reassignment: Reassignment | None = None
    reassignment_version: int = -1
    reassignment_mzxid: int = -1
    """The zxid of the last write of the reassignment."""

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """AR after the reassignment."""
        return self.replicas if self.reassignment is None else self.reassignment.target

    @property
    def replication_factor(self) -> int:
        """The bound of min.insync.replicas: the smaller of the factors before and after, so that replicas
        that are still empty, and so not in sync, block no producer."""
        wanted = self.reassignment
        return len(self.replicas) if wanted is None else min(len(wanted.original), len(wanted.target))

    def older_than(self, other: PartitionAssignment) -> bool:
        """True if this was read before the other, in whichever order they arrived."""
        if self.version != other.version:
            return self.version < other.version
        both = self.reassignment is not None and other.reassignment is not None
        return both and self.reassignment_mzxid < other.reassignment_mzxid


def leaving(me: BrokerId, assignment: PartitionAssignment) -> tuple[BrokerId, ...]:
    """AR − RAR, and the leader if it is in neither: its place went with another reassignment."""
    present = assignment.replicas if me in assignment.replicas else (*assignment.replicas, me)
    return tuple(broker for broker in present if broker not in assignment.target)


def may_close(wanted: Reassignment, in_sync: Collection[BrokerId], min_insync: int) -> bool:
    """True if the partition can do without AR − RAR: all of RAR is in the ISR of record (CORRECTNESS E16).

    When reverting, `min_insync` of the original are enough, since writes continue with these.
    """
    count = sum(broker in in_sync for broker in wanted.target)
    return count >= max(1, min_insync) if wanted.reverting else count == len(wanted.target)


def next_leader(
    me: BrokerId,
    target: tuple[BrokerId, ...],
    members: Collection[IsrMember],
    live: Mapping[BrokerId, Registration],
) -> BrokerId | None:
    """The leader once AR is `target`; `me` if the leader stays, None if no replica can lead.

    The preferred replica leads if it can. Else a leader in RAR stays, and one that is not hands over to the
    next replica that can lead: in sync, alive in that life, and not shutting down (CORRECTNESS I7).
    """

    def able(broker: BrokerId) -> bool:
        registration = live.get(broker)
        return (
            registration is not None
            and not registration.shutting_down
            and IsrMember(broker, registration.epoch) in members
        )

    if me in target:
        return target[0] if target[0] == me or able(target[0]) else me
    return next((broker for broker in target if able(broker)), None)
