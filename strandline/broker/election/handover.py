"""Hands leadership over in three steps: drain, fence, name the next leader.

A broker that shuts down hands over all of its leaderships in any case. A leader that should be replaced (by
the preferred replica, or by a broker that an operator names) yields only if it can be drained quickly and the
other broker is in sync. Otherwise it continues to lead, and no accepted record is lost.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

import structlog

from strandline.broker.election.resignations import Place, Resignation, Resignations
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.replica import Replica
from strandline.broker.replicas.session_context import SessionContext
from strandline.ids import NO_BROKER, BrokerId, LeaderEpoch
from strandline.tasks import pipelined
from strandline.vocabulary.state_changes import AskedBy

logger = structlog.get_logger(__name__)

LEFT_TOGETHER: Final = 100
"""Leaderships that a broker hands over together when it shuts down: producers wait for one such group, not
for all."""
GROUPS_IN_FLIGHT_MAX: Final = 2
"""Groups in progress: one is drained and written while the successors of another take over."""
DRAIN_S_MAX: Final = 0.5
"""The longest time that producers wait for a leadership that is yielded. At a shutdown, a leadership that
takes longer to drain waits separately."""
DRAIN_SHARE: Final = 0.75
"""Share of `handover_ms` in which a broker that shuts down waits for its commit queues to empty. ZooKeeper
has the rest of the time to take the resignations."""
TAKE_OVER_S_MAX: Final = 1.0
"""Time that the next group waits for the successors of this group."""


class Handover:
    """Hands over the leaderships of one broker, in one session."""

    def __init__(self, context: SessionContext) -> None:
        self._manager = context.manager
        self._drain_s = DRAIN_SHARE * context.settings.handover_ms / 1000
        self._clock = context.clock
        self._resignations = Resignations(context)
        self._leaving = False

    # --- all of them -------------------------------------------------------------------------

    async def leave_all(self) -> None:
        """Hands over every partition led here, in groups, and waits until the named successors lead."""
        self._leaving = True
        led = [replica.leadership for replica in self._manager if replica.leadership is not None]
        if led:
            logger.info("handing leadership over", partitions=len(led))
        deadline = self._clock.monotonic() + self._drain_s
        groups = [led[i : i + LEFT_TOGETHER] for i in range(0, len(led), LEFT_TOGETHER)]
        async with asyncio.TaskGroup() as slow:
            leave = partial(self._leave, deadline, slow)

            async def together(group: list[Leadership]) -> None:
                await pipelined(leave, group, in_flight_max=LEFT_TOGETHER)

            await pipelined(together, groups, in_flight_max=GROUPS_IN_FLIGHT_MAX)

    async def _leave(self, deadline: float, slow: asyncio.TaskGroup, leadership: Leadership) -> None:
        if await self._drained(leadership, min(DRAIN_S_MAX, self._drain_s)):
            await self._resign(leadership)
            await self._taken_over(leadership, deadline - self._clock.monotonic())
        else:  # it does not delay the others
            slow.create_task(self._leave_undrained(deadline, leadership))

    async def _leave_undrained(self, deadline: float, leadership: Leadership) -> None:
        """Resigns without a drain. Accepted records may still commit; otherwise their outcome is unknown."""
        if not await self._drained(leadership, deadline - self._clock.monotonic()):
            logger.warning("handing over what could not be drained", partition=str(leadership.replica.name))
        await self._resign(leadership)

    async def _resign(self, leadership: Leadership) -> None:
        if leadership.ended():
            return
        next_leader = await self._resignations.hand_in(
            Resignation(
                leadership.replica,
                leadership.epoch,
                "shutting down",
                place=Place.LEFT_IF_ENOUGH,
                leadership=leadership,
            )
        )
        if not leadership.ended():
            leadership.retire(NO_BROKER if next_leader is None else next_leader)

    @staticmethod
    async def _drained(leadership: Leadership, seconds: float) -> bool:
        """Accepts nothing more. Returns True if everything accepted is committed within this time."""
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await leadership.drained()
        except TimeoutError:
            return False
        return True

    @staticmethod
    async def _taken_over(leadership: Leadership, seconds: float) -> None:
        """Returns once this broker knows the new leader, if one was named. So a successor gets only as many
        leaderships as it takes over at once, and clients learn the new leader."""
        replica = leadership.replica
        changed = asyncio.Event()
        replica.listen(changed.set)
        try:
            async with asyncio.timeout(min(TAKE_OVER_S_MAX, max(0.0, seconds))):
                while replica.leader != NO_BROKER and replica.leader_epoch == leadership.epoch:
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            logger.debug("no successor was seen to take over", partition=str(replica.name))
        finally:
            replica.unlisten(changed.set)

    # --- one of them ---------------------------------------------------------------------------

    async def yield_to(
        self, leadership: Leadership, broker: BrokerId, reason: str, by: AskedBy | None = None
    ) -> bool:
        """Hands the leadership to this broker if no client is harmed by it. Returns True if it is handed
        over. `by`: the caller that asked for it.

        The handover is written only if the broker is in sync in its registered life and is not shutting down.
        While the outcome of the write is unknown, nothing is accepted: a record with acks=1 might be lost
        (CORRECTNESS E1).
        """
        replica = leadership.replica
        busy = leadership.draining or leadership.core.handing_over
        if self._leaving or leadership.ended() or busy:
            return False
        if not await self._drained(leadership, DRAIN_S_MAX):
            self._lead_on(leadership, f"it was not drained within {DRAIN_S_MAX} s")
            return False
        if leadership.ended():
            return False
        next_leader = await self._resignations.hand_in(
            Resignation(replica, leadership.epoch, reason, to=broker, by=by, leadership=leadership)
        )
        if next_leader is None:
            self._lead_on(leadership, f"broker {broker} could not take over")
            return False
        logger.info(
            "leadership handed over",
            partition=str(replica.name),
            epoch=leadership.epoch,
            to=next_leader,
            reason=reason,
        )
        if not leadership.ended():
            replica.yielded_epoch = leadership.epoch
            leadership.retire(next_leader)
        await self._taken_over(leadership, TAKE_OVER_S_MAX)
        return True

    def _lead_on(self, leadership: Leadership, reason: str) -> None:
        if leadership.ended() or self._leaving:
            return
        logger.info(
            "leadership not handed over",
            partition=str(leadership.replica.name),
            epoch=leadership.epoch,
            reason=reason,
        )
        leadership.undrain()

    # --- after a failure of the log --------------------------------------------------------------

    async def resign(self, replica: Replica, epoch: LeaderEpoch, *, reason: str) -> None:
        """Writes that this broker, whose log failed, no longer leads in this epoch and is not in sync."""
        await self._resignations.hand_in(Resignation(replica, epoch, reason, place=Place.LEFT))
