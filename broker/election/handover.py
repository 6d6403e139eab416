"""Gives leadership away on purpose: drain, fence, name the next one, in that order.

A broker that shuts down gives all of it away, whatever comes of it. A leader that another one shall follow
(the preferred replica, or whoever an operator names) yields: if it cannot be drained quickly, or if that
one turns out not to be in sync, it leads on, and nothing that it accepted is lost.
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

logger = structlog.get_logger(__name__)

LEFT_TOGETHER: Final = 100
"""Leaderships that a broker which shuts down gives up at once: producers wait for as many, not for all."""
GROUPS_IN_FLIGHT_MAX: Final = 2
"""One is drained and written while the successors of another take over."""
DRAIN_S_MAX: Final = 0.5
"""For a leadership that is yielded, producers wait no longer; one that takes longer to drain waits by itself
when the broker shuts down."""
DRAIN_SHARE: Final = 0.75
"""Part of `handover_ms` in which a broker that shuts down waits for its commit queues to empty; the rest is
for ZooKeeper to take the resignations."""
TAKE_OVER_S_MAX: Final = 1.0
"""How long the next leaderships wait for the successor of these."""


class Handover:
    """Leaves leaderships of one broker, in one session."""

    def __init__(self, context: SessionContext) -> None:
        self._manager = context.manager
        self._drain_s = DRAIN_SHARE * context.settings.handover_ms / 1000
        self._clock = context.clock
        self._resignations = Resignations(context)
        self._leaving = False

    # --- all of them -------------------------------------------------------------------------

    async def leave_all(self) -> None:
        """Hand over every partition led here, some at a time, and see those that were named take over."""
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
        else:  # it holds up nobody else
            slow.create_task(self._leave_undrained(deadline, leadership))

    async def _leave_undrained(self, deadline: float, leadership: Leadership) -> None:
        """What it accepted may yet commit; if not, its outcome is unknown."""
        if not await self._drained(leadership, deadline - self._clock.monotonic()):
            logger.warning("handing over what could not be drained", partition=str(leadership.replica.name))
        await self._resign(leadership)

    async def _resign(self, leadership: Leadership) -> None:
        if leadership.ended():
            return
        replica = leadership.replica
        next_leader = await self._resignations.hand_in(
            Resignation(replica, leadership.epoch, "shutting down", place=Place.LEFT_IF_ENOUGH)
        )
        if not leadership.ended():
            self._manager.retire(replica, NO_BROKER if next_leader is None else next_leader)

    @staticmethod
    async def _drained(leadership: Leadership, seconds: float) -> bool:
        """Accept nothing more; whether everything accepted is committed within this time."""
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await leadership.drained()
        except TimeoutError:
            return False
        return True

    @staticmethod
    async def _taken_over(leadership: Leadership, seconds: float) -> None:
        """Return once this broker knows who leads now, if anybody was named. So a successor gets no more at a
        time than it takes over at once, and clients are told where to go."""
        replica = leadership.replica
        news = asyncio.Event()
        replica.listen(news.set)
        try:
            async with asyncio.timeout(min(TAKE_OVER_S_MAX, max(0.0, seconds))):
                while replica.leader != NO_BROKER and replica.leader_epoch == leadership.epoch:
                    await news.wait()
                    news.clear()
        except TimeoutError:
            logger.debug("nobody was seen to take over", partition=str(replica.name))
        finally:
            replica.unlisten(news.set)

    # --- one of them ---------------------------------------------------------------------------

    async def yield_to(self, leadership: Leadership, broker: BrokerId, reason: str) -> bool:
        """Give the leadership to this broker if that costs nobody anything; whether it is given.

        It is written only if the broker is in sync, in the life that is registered, and not shutting down.
        While that is not known to be written or not, nothing is accepted: with acks=1 it might be lost
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
            Resignation(replica, leadership.epoch, reason, to=broker)
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
            self._manager.retire(replica, next_leader)
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

    # --- one that cannot be led on ---------------------------------------------------------------

    async def resign(self, replica: Replica, epoch: LeaderEpoch, *, reason: str) -> None:
        """Write that this broker, whose log failed, leads no longer in this epoch, and is not in sync."""
        await self._resignations.hand_in(Resignation(replica, epoch, reason, place=Place.LEFT))
