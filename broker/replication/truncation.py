"""Cuts logs that went another way than their leaders', and tells it first.

From what is left of a log nobody could tell what was in it (CORRECTNESS T11), so the record of a cut is on
this broker's disk before the cut is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strandline.broker.core.state_changes.events import truncated
from strandline.broker.events.replica_events import Recorder
from strandline.broker.replicas.replica import Cut, Replica
from strandline.errors import StorageFailed
from strandline.ids import BrokerId, Offset
from strandline.ports import Clock
from strandline.vocabulary.state_changes import StateChangeEvent


@dataclass(frozen=True, slots=True)
class Parting:
    """What a leader says of a log that cannot be followed as it is: its own largest epoch not above the one
    asked for, and where that ends (-1 if there is none); and where its log begins (KIP-279, T3, T9)."""

    replica: Replica
    epoch: int
    end: int
    log_start_offset: int

    @property
    def common_end(self) -> Offset | None:
        """Where the last epoch that both logs may share ends; None if they have none in common."""
        log = self.replica.log
        own_epoch, own_end = log.end_offset_for(self.epoch)
        if self.epoch < 0 or own_epoch < 0:
            return None
        return Offset(max(log.log_start_offset, min(self.end, own_end)))

    @property
    def leaders_start(self) -> Offset:
        """Where the leader's log begins, within this one: what lies above diverges if no epoch is in common,
        what lies below is deleted there."""
        log = self.replica.log
        return Offset(max(log.log_start_offset, min(self.log_start_offset, log.log_end_offset)))


class Cutter:
    """One broker's, in one session. Never awaits."""

    def __init__(self, me: BrokerId, recorder: Recorder, clock: Clock) -> None:
        self._me = me
        self._recorder = recorder
        self._clock = clock

    def cut(self, partings: Sequence[Parting]) -> list[tuple[Replica, StorageFailed | None]]:
        """Cut each log to where it may go on; a replica that cannot, or that would lose what was committed,
        has failed. All are told with one write: after a failover there may be as many as partitions."""
        planned = [(parting, parting.common_end) for parting in partings]
        events: list[StateChangeEvent] = []
        for parting, common_end in planned:
            replica = parting.replica
            cut = replica.cut_at(parting.leaders_start if common_end is None else common_end)
            events += self._told(replica, cut, _why(replica, cut))
            if common_end is None and not cut.refused:
                events += self._told_restart(replica, cut.first, parting.log_start_offset)
        if events:
            self._recorder.record_durably(events)
        return [(parting.replica, _carry_out(parting, common_end)) for parting, common_end in planned]

    def restart_at(self, replica: Replica, offset: Offset) -> None:
        """Begin anew where the leader's log begins. Raises StorageFailed."""
        events = self._told_restart(replica, Offset(replica.log.log_end_offset), offset)
        if events:
            self._recorder.record_durably(events)
        replica.restart_at(offset)

    def _told_restart(self, replica: Replica, end: Offset, begins_at: int) -> list[StateChangeEvent]:
        """What goes when a log, which ends there by now, begins anew."""
        cut = Cut(Offset(replica.log.log_start_offset), end, committed=0, refused=False)
        return self._told(replica, cut, f"the log of broker {replica.leader} begins at {begins_at}")

    def _told(self, replica: Replica, cut: Cut, reason: str) -> list[StateChangeEvent]:
        """The event of a cut; none if it takes nothing."""
        if cut.first >= cut.end:
            return []
        return [
            truncated(
                replica.name.topic,
                replica.key,
                self._me,
                replica.leader_epoch,
                first=cut.first,
                end=cut.end,
                lost=0 if cut.refused else cut.committed,
                at_ms=self._clock.wall_ms(),
                reason=reason,
                refused=cut.refused,
            )
        ]


def _carry_out(parting: Parting, common_end: Offset | None) -> StorageFailed | None:
    replica = parting.replica
    try:
        if common_end is None:
            replica.truncate(parting.leaders_start)
            replica.restart_at(Offset(parting.log_start_offset))
        else:
            replica.truncate(common_end)
    except StorageFailed as error:
        return error
    return None


def _why(replica: Replica, cut: Cut) -> str:
    if cut.refused:
        return (
            f"refused: the log of broker {replica.leader} lacks {cut.committed} committed records "
            f"from {cut.first} on"
        )
    if cut.committed:
        return f"broker {replica.leader} was elected without these records"
    return f"the log of broker {replica.leader} went another way"
