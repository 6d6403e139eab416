"""How far a reassignment is: from the controller's list, and what the partition's leader knows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from strandline.errors import StrandlineError
from strandline.vocabulary.admin import OngoingReassignment
from strandline.vocabulary.log import DescribedReplicas, ReplicaProgress, known


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """One replica that a reassignment adds. None: unknown."""

    broker: int
    in_sync: bool
    bytes_done: int | None
    """Of the leader's log, as it is now."""
    bytes_left: int | None
    bytes_per_s: int | None
    """Over the last seconds."""
    ms_left: int | None
    """At that pace, with what producers append meanwhile, or at the throttle if that is slower; also None if
    it does not come closer."""


@dataclass(frozen=True, slots=True)
class ReassignmentProgress:
    """A reassignment, and the replicas that it fills. The sums are over these; None: one is unknown."""

    move: OngoingReassignment
    copies: tuple[CopyProgress, ...] | None
    """None while the leader cannot be asked."""

    @property
    def adding(self) -> tuple[int, ...]:
        """The brokers that get a replica; a cancelled reassignment adds none."""
        return () if self.move.reverting else _without(self.move.replicas, self.move.original)

    @property
    def removing(self) -> tuple[int, ...]:
        """The brokers whose replicas go in the end."""
        if self.move.reverting:
            return _without(self.move.replicas, self.move.original)
        return _without(self.move.original, self.move.replicas)

    @property
    def bytes_done(self) -> int | None:
        return None if self.copies is None else _sum(each.bytes_done for each in self.copies)

    @property
    def bytes_left(self) -> int | None:
        return None if self.copies is None else _sum(each.bytes_left for each in self.copies)

    @property
    def bytes_per_s(self) -> int | None:
        """Of those that are not in sync yet."""
        if self.copies is None:
            return None
        return _sum(each.bytes_per_s for each in self.copies if not each.in_sync)

    @property
    def ms_left(self) -> int | None:
        """Until the last one has all."""
        if self.copies is None:
            return None
        times = [0 if each.in_sync else each.ms_left for each in self.copies]
        known = [each for each in times if each is not None]
        return max(known, default=0) if len(known) == len(times) else None


def reassignment_progress(
    move: OngoingReassignment, answer: DescribedReplicas | StrandlineError | None
) -> ReassignmentProgress:
    """The progress of a move, with its leader's answer."""
    if not isinstance(answer, DescribedReplicas):
        return ReassignmentProgress(move, None)
    size = answer.size_bytes
    return ReassignmentProgress(move, tuple(_copy(each, size) for each in answer.replicas if each.adding))


def _copy(replica: ReplicaProgress, size_bytes: int) -> CopyProgress:
    left = known(replica.lag_bytes)
    return CopyProgress(
        replica.broker,
        replica.in_sync,
        None if left is None else max(0, size_bytes - left),
        left,
        known(replica.bytes_per_s),
        known(replica.ms_left),
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


def _without(brokers: Iterable[int], others: Iterable[int]) -> tuple[int, ...]:
    left_out = set(others)
    return tuple(broker for broker in brokers if broker not in left_out)
