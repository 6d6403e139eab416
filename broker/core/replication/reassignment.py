"""Where the replicas of a partition go: what its leader makes of a reassignment (seed 003).

    catching up   AR is the original with RAR behind it; everybody may join the ISR
    closing       every member of RAR is in sync: AR − RAR is asked to close, may not join the ISR
                  any more, and leaves it as soon as it stops fetching
    completing    RAR is in sync and nobody of AR − RAR but the leader is: AR becomes RAR, and the
                  leader gives up what it is not to lead

A cancelled one goes the same way with the original in place of RAR. Its dead members do not hold that
up: a placement that stood before is gone back to as soon as enough of it is in sync.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from strandline.ids import BrokerId
from strandline.vocabulary.metadata import IsrMember, Reassignment, Registration


@dataclass(frozen=True, slots=True)
class Assignment:
    """What ZooKeeper says of a partition's replicas. The versions are for compare-and-set."""

    replicas: tuple[BrokerId, ...] = ()
    """AR; while a reassignment stands, with what that adds."""
    version: int = -1
    reassignment: Reassignment | None = None
    reassignment_version: int = -1
    reassignment_mzxid: int = -1
    """When the reassignment was written last."""

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """AR in the end."""
        return self.replicas if self.reassignment is None else self.reassignment.target

    @property
    def replication_factor(self) -> int:
        """What min.insync.replicas is measured by: the smaller of before and after, so that nobody is
        blocked because replicas that are still empty are not in sync."""
        wanted = self.reassignment
        return len(self.replicas) if wanted is None else min(len(wanted.original), len(wanted.target))

    def older_than(self, other: Assignment) -> bool:
        """True if this was read before the other, whichever came in first."""
        if self.version != other.version:
            return self.version < other.version
        both = self.reassignment is not None and other.reassignment is not None
        return both and self.reassignment_mzxid < other.reassignment_mzxid


def leaving(me: BrokerId, assignment: Assignment) -> tuple[BrokerId, ...]:
    """AR − RAR, the leader too if it is in neither any more: what it leads is another reassignment's."""
    present = assignment.replicas if me in assignment.replicas else (*assignment.replicas, me)
    return tuple(broker for broker in present if broker not in assignment.target)


def may_close(wanted: Reassignment, in_sync: Collection[BrokerId], min_insync: int) -> bool:
    """True if the partition can do without AR − RAR: all of RAR is in the ISR of record (CORRECTNESS E16).

    Going back, it is enough that so many of the original are that writes go on.
    """
    count = sum(broker in in_sync for broker in wanted.target)
    return count >= max(1, min_insync) if wanted.reverting else count == len(wanted.target)


def heir(
    me: BrokerId,
    target: tuple[BrokerId, ...],
    members: Collection[IsrMember],
    live: Mapping[BrokerId, Registration],
) -> BrokerId | None:
    """Who is to lead instead of `me` once AR is `target`; `me` if nobody is to, None if nobody can.

    The preferred one if it can; else a leader that is in RAR leads on, and one that is not gives it to the
    next that can: in sync, alive in that life, and not shutting down (CORRECTNESS I7).
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
