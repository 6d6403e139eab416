"""Moves leadership to preferred replicas over time, and on request to a named broker at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from strandline.adapters.zookeeper.facts import read_drains
from strandline.adapters.zookeeper.layout.queue_znodes import ElectionNotice
from strandline.broker.core.election.balancing import LedPartition, obstacle, to_balance
from strandline.broker.election.handover import Handover
from strandline.broker.membership.suspicion import Reach
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.session_context import SessionContext
from strandline.ids import BrokerId, Offset, PartitionKey
from strandline.ports import ConnectionLost
from strandline.tasks import pipelined

logger = structlog.get_logger(__name__)

YIELDED_TOGETHER_MAX: Final = 20
"""Leaderships that are handed over at the same time; each delays its producers for a moment."""
ASKED_S_MAX: Final = 5.0
"""Time for which a requested transfer is tried."""
ASK_AGAIN_S: Final = 0.1


class Balancing:
    """Moves leadership during one session. `run` is its task; `asked` never awaits."""

    def __init__(self, context: SessionContext, handover: Handover, reach: Reach) -> None:
        self._manager = context.manager
        self._session = context.coordination
        self._handover = handover
        self._reach = reach
        self._check_s = context.settings.preferred_leader_check_ms / 1000
        self._clock = context.clock
        self._asked: dict[PartitionKey, ElectionNotice] = {}
        """Unfinished requests: for each partition the last one."""
        self._new: list[ElectionNotice] = []
        self._wake = asyncio.Event()
        self._slots = asyncio.Semaphore(YIELDED_TOGETHER_MAX)

    def asked(self, notice: ElectionNotice) -> None:
        """Receives a request that another broker should lead."""
        if self._asked.get(notice.key) != notice:
            self._asked[notice.key] = notice
            self._new.append(notice)
            self._wake.set()

    async def run(self) -> None:
        """Hands over leaderships that other brokers should have. Runs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._answer())
            tasks.create_task(self._balance())

    # --- on request ----------------------------------------------------------------------------

    async def _answer(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._wake.wait()
                self._wake.clear()
                new, self._new = self._new, []
                for notice in new:
                    tasks.create_task(self._give(notice))

    async def _give(self, notice: ElectionNotice) -> None:
        """Tries for a while: right after an election the leader does not know the followers' positions
        yet."""
        deadline = self._clock.monotonic() + ASKED_S_MAX
        while self._asked.get(notice.key) is notice:
            async with self._slots:
                reason = await self._try(notice)
            if self._asked.get(notice.key) is not notice:
                return  # a later request came meanwhile, and may have ended
            if reason is None or self._is_late(notice) or self._clock.monotonic() >= deadline:
                del self._asked[notice.key]
                if reason is not None:
                    logger.info(
                        "leadership not handed over",
                        partition=f"{notice.topic}-{notice.key.partition}",
                        to=notice.give_to,
                        reason=reason,
                    )
                return
            await self._clock.sleep(ASK_AGAIN_S)

    async def _try(self, notice: ElectionNotice) -> str | None:
        """Tries once. Returns the reason if it cannot be handed over yet; None if it was, or is
        impossible."""
        leadership = self._leadership(notice.key)
        if leadership is None or leadership.epoch != notice.leader_epoch:
            return f"this broker does not lead in epoch {notice.leader_epoch}"
        reason = obstacle(standing(leadership), notice.give_to, self._manager.peers.reachable)
        if reason is None and not await self._reach.answering([notice.give_to]):
            reason = f"broker {notice.give_to} does not answer this one"
        if reason is None:
            await self._handover.yield_to(leadership, notice.give_to, notice.reason, notice.by)
        return reason

    def _is_late(self, notice: ElectionNotice) -> bool:
        """True if the request is outdated (CORRECTNESS E6)."""
        replica = self._manager.get(notice.key)
        return replica is None or replica.leader_epoch > notice.leader_epoch

    # --- periodically --------------------------------------------------------------------------

    async def _balance(self) -> None:
        while True:
            await self._clock.sleep(self._check_s)
            try:
                await self.check()
            except ConnectionLost:
                logger.debug("preferred leaders not looked for: no connection to ZooKeeper")

    async def check(self) -> None:
        """Hands each leadership to its preferred replica if that may have it. Raises ConnectionLost.

        The preferred replica must answer this broker now. This broker would not follow a leader that it
        cannot reach, and would take the leadership back.
        """
        drained = frozenset(await read_drains(self._session))
        live = self._manager.peers.reachable
        standings = [
            standing(replica.leadership) for replica in self._manager if replica.leadership is not None
        ]
        due = to_balance(standings, live, drained, self._clock.monotonic(), self._check_s)
        answering = await self._reach.answering({broker for _, broker in due})
        due = [(key, broker) for key, broker in due if live[broker].epoch in answering]
        if due:
            logger.info("handing over to preferred leaders", partitions=len(due))
        for first in range(0, len(due), YIELDED_TOGETHER_MAX):
            some = due[first : first + YIELDED_TOGETHER_MAX]
            await pipelined(self._prefer, some, in_flight_max=YIELDED_TOGETHER_MAX)

    async def _prefer(self, choice: tuple[PartitionKey, BrokerId]) -> None:
        key, preferred = choice
        leadership = self._leadership(key)
        if leadership is not None:
            await self._handover.yield_to(leadership, preferred, "preferred leader")

    def _leadership(self, key: PartitionKey) -> Leadership | None:
        replica = self._manager.get(key)
        return None if replica is None else replica.leadership


def standing(leadership: Leadership) -> LedPartition:
    """The facts that the core decides by."""
    replica, core = leadership.replica, leadership.core
    ends: Mapping[BrokerId, Offset] = {broker: core.follower_end(broker) for broker in core.state.isr_ids}
    return LedPartition(
        replica.key,
        core.me,
        replica.assigned,
        leadership.in_sync_since,
        ends,
        core.high_watermark,
        replica.reassignment is not None,
    )
