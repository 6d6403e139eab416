"""Writes a leader's change of its ISR to ZooKeeper by compare-and-set (CORRECTNESS I4, E7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from strandline.adapters.system.crash_points import crash_point
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.broker.core.replication.effects import WriteIsr
from strandline.broker.core.state_changes.events import isr_changed
from strandline.broker.facts.isr_record import read_isr
from strandline.broker.replicas.local_replica import LocalReplica
from strandline.ports import (
    BadVersion,
    Check,
    Clock,
    ConnectionLost,
    Coordination,
    MultiFailed,
    Operation,
    SetData,
)
from strandline.vocabulary.metadata import IsrMember, PartitionState


class IsrWriter:
    """The ISR writes of one leadership. Its commit task awaits `write`, one at a time."""

    def __init__(self, replica: LocalReplica, session: Coordination, clock: Clock) -> None:
        self._replica = replica
        self._session = session
        self._clock = clock

    async def write(
        self, write: WriteIsr, *, on_join_refused: Callable[[IsrMember], None]
    ) -> tuple[PartitionState | None, int]:
        """Returns the content and the version of `isr` afterwards, whichever broker wrote it; the content is
        None if the partition, or this incarnation of its topic, is gone.

        Changes of a registration are not watched. So a member may join only if its registration has its first
        version: the only other version announces a shutdown (I7). `on_join_refused` is called with a member
        that may not join, before anything is read again.
        """
        name = self._replica.name
        wanted = self._with_trail(write)
        crash_point("isr.before_write")
        joining = {Check(znodes.broker(member.broker), version=0): member for member in write.entering}
        operations: list[Operation] = [
            SetData(znodes.isr(name.topic, name.partition), isr_znodes.dump_isr(wanted), write.version),
            znodes.of_incarnation(self._replica.key.topic_id),
            *joining,
        ]
        try:
            written = await self._session.multi(operations)
        except ConnectionLost:
            return await read_isr(self._session, self._clock, name)
        except MultiFailed as failed:
            refused = operations[failed.index]
            joiner = joining.get(refused) if isinstance(refused, Check) else None
            if joiner is not None:
                on_join_refused(joiner)
            if joiner is not None or isinstance(failed.cause, BadVersion):
                return await read_isr(self._session, self._clock, name)
            return None, 0
        crash_point("isr.after_write")
        return wanted, int(written[0] or 0)

    def _with_trail(self, write: WriteIsr) -> PartitionState:
        """The state with an event of the change in its trail."""
        name, trail = self._replica.name, self._replica.trail
        event = isr_changed(
            name.topic,
            self._replica.key,
            write.state,
            write.version + 1,
            at_ms=self._clock.wall_ms(),
            reason=write.reason,
            left=write.left,
            joined=write.joined,
        )
        return replace(write.state, trail=trail.extended(trail.current, event))
