"""Truncates logs that diverged from their leaders', and records each truncation first.

A truncated log does not show what was removed (CORRECTNESS T11), so the event is on this broker's disk before
the log is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strandline.broker.core.state_changes.events import truncated
from strandline.broker.events.replica_events import EventRecorder
from strandline.broker.replicas.local_replica import Cut
from strandline.broker.replicas.replica import Replica
from strandline.errors import StorageFailed
from strandline.ids import BrokerId, Offset
from strandline.ports import Clock
from strandline.vocabulary.state_changes import StateChangeEvent


@dataclass(frozen=True, slots=True)
class Divergence:
    """A leader's answer about a log that diverges: the largest epoch that it has up to the requested one,
    that epoch's end offset (-1 if there is none), and the start of the leader's log (KIP-279, T3, T9)."""

    replica: Replica
    epoch: int
    end: int
    log_start_offset: int

    @property
    def common_end(self) -> Offset | None:
        """The end of the last epoch that both logs may share; None if they share none, or only what is
        deleted here: then the logs parted below this log's start."""
        log = self.replica.log
        own_epoch, own_end = log.end_offset_for(self.epoch)
        end = min(self.end, own_end)
        if self.epoch < 0 or own_epoch < 0 or end < log.log_start_offset:
            return None
        return Offset(end)

    @property
    def leaders_start(self) -> Offset:
        """The start of the leader's log, within this log. If the logs share no epoch, records above it
        diverge, and records below it are deleted on the leader."""
        log = self.replica.log
        return Offset(max(log.log_start_offset, min(self.log_start_offset, log.log_end_offset)))


class Truncator:
    """Truncates the logs of one broker, in one session. Never awaits."""

    def __init__(self, me: BrokerId, recorder: EventRecorder, clock: Clock) -> None:
        self._me = me
        self._recorder = recorder
        self._clock = clock

    def cut(self, divergences: Sequence[Divergence]) -> list[tuple[Replica, StorageFailed | None]]:
        """Truncates each log to the offset from which it can follow again. A replica fails if that is
        impossible or would lose committed records. One write records all events, since after a failover there
        may be one for each partition."""
        planned = [(divergence, divergence.common_end) for divergence in divergences]
        events: list[StateChangeEvent] = []
        for divergence, common_end in planned:
            replica = divergence.replica
            cut = replica.cut_at(divergence.leaders_start if common_end is None else common_end)
            events += self._events(replica, cut, _why(replica, cut))
            if common_end is None and not cut.refused:
                events += self._restart_events(replica, cut.first, divergence.log_start_offset)
        if events:
            self._recorder.record_durably(events)
        return [
            (divergence.replica, _carry_out(divergence, common_end)) for divergence, common_end in planned
        ]

    def restart_at(self, replica: Replica, offset: Offset) -> None:
        """Empties the log, and begins anew at the start of the leader's log. Raises StorageFailed."""
        events = self._restart_events(replica, Offset(replica.log.log_end_offset), offset)
        if events:
            self._recorder.record_durably(events)
        replica.restart_at(offset)

    def _restart_events(self, replica: Replica, end: Offset, begins_at: int) -> list[StateChangeEvent]:
        """The events of a log that ends at `end` and begins anew."""
        cut = Cut(Offset(replica.log.log_start_offset), end, committed=0, refused=False)
        return self._events(replica, cut, f"the log of broker {replica.leader} begins at {begins_at}")

    def _events(self, replica: Replica, cut: Cut, reason: str) -> list[StateChangeEvent]:
        """The event of a truncation; none if it removes no record."""
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


def _carry_out(divergence: Divergence, common_end: Offset | None) -> StorageFailed | None:
    replica = divergence.replica
    try:
        if common_end is None:
            replica.truncate(divergence.leaders_start)
            replica.restart_at(Offset(divergence.log_start_offset))
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
