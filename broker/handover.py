"""Gives leadership away on purpose: drain, fence, name the next one, in that order.

The fence is the same compare-and-set on `isr` that an election uses: after it this broker can no
longer commit, and whoever stands next starts from the same members.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from broker.core.election import successor
from broker.leadership import Leadership
from broker.recorder import Recorder
from broker.replica import Replica
from broker.replica_manager import ReplicaManager
from strandline.adapters import queue_znodes, znodes
from strandline.adapters.crash_points import crash_point
from strandline.config import BrokerSettings
from strandline.ids import NO_BROKER, BrokerId, LeaderEpoch
from strandline.metadata import PartitionState, Registration
from strandline.ports import (
    Clock,
    ConnectionLost,
    Coordination,
    Create,
    Delete,
    MultiFailed,
    NoNode,
    Operation,
    SetData,
)

logger = structlog.get_logger(__name__)

TRY_AGAIN_S = 0.05


class Handover:
    """Leaves leaderships of one broker, in one session."""

    def __init__(
        self,
        manager: ReplicaManager,
        session: Coordination,
        recorder: Recorder,
        settings: BrokerSettings,
        clock: Clock,
    ) -> None:
        self._manager = manager
        self._session = session
        self._recorder = recorder
        self._drain_s = settings.handover_ms / 1000
        self._clock = clock

    async def leave_all(self, live: Mapping[BrokerId, Registration]) -> dict[Replica, LeaderEpoch]:
        """Hand over every partition led here, side by side.

        Returns the replicas that have a successor, with the epoch that ended.
        """
        led = [replica.leadership for replica in self._manager if replica.leadership is not None]
        if led:
            logger.info("handing leadership over", partitions=len(led))
        async with asyncio.TaskGroup() as tasks:
            for leadership in led:
                tasks.create_task(self._leave(leadership, live))
        return {was.replica: was.epoch for was in led if was.replica.leader != NO_BROKER}

    async def _leave(self, leadership: Leadership, live: Mapping[BrokerId, Registration]) -> None:
        replica = leadership.replica
        try:
            async with asyncio.timeout(self._drain_s):
                await leadership.drained()
        except TimeoutError:
            logger.warning("handing over what could not be drained", partition=str(replica.name))
        if leadership.ended():
            return
        next_leader = await self.resign(replica, leadership.epoch, live, keep_place=True)
        if not leadership.ended():
            self._manager.retire(replica, next_leader)

    async def resign(
        self,
        replica: Replica,
        epoch: LeaderEpoch,
        live: Mapping[BrokerId, Registration],
        *,
        keep_place: bool,
    ) -> BrokerId:
        """Write that this broker no longer leads in this epoch; whom it named next, or NO_BROKER.

        Without `keep_place` it leaves the ISR too, as a log that failed must, unless it is the last member:
        nobody else has all that was committed.
        """
        name, me = replica.name, self._manager.me
        while True:
            try:
                node = await self._session.get(znodes.isr(name.topic, name.partition))
                state = znodes.load_isr(name.topic, name.partition, node.data)
                if (state.leader, state.leader_epoch) != (me, epoch):
                    return state.leader  # somebody leads already
                next_leader = successor(state, replica.assigned, live)
                others = tuple(member for member in state.isr if member.broker != me)
                members = state.isr if keep_place or not others else others
                crash_point("handover.before_notice")
                await self._session.multi(
                    self._operations(
                        replica, PartitionState(NO_BROKER, epoch, members), node.version, next_leader
                    )
                )
                crash_point("handover.after_notice")
                return NO_BROKER if next_leader is None else next_leader
            except NoNode:
                return NO_BROKER
            except (MultiFailed, ConnectionLost) as error:
                # An ISR change of ours was under way, or nobody knows: look, and try again.
                logger.debug("resignation not recorded yet", partition=str(name), reason=str(error))
                await self._clock.sleep(TRY_AGAIN_S)

    @staticmethod
    def _operations(
        replica: Replica, resigned: PartitionState, version: int, next_leader: BrokerId | None
    ) -> list[Operation]:
        name = replica.name
        operations: list[Operation] = [
            SetData(znodes.isr(name.topic, name.partition), znodes.dump_isr(resigned), version),
            Delete(znodes.leader(name.topic, name.partition)),
        ]
        if next_leader is not None:
            notice = queue_znodes.ElectionNotice(name.topic, replica.key, resigned.leader_epoch)
            prefix = znodes.election_notice_prefix(next_leader)
            operations.append(Create(prefix, queue_znodes.dump_notices([notice]), sequential=True))
        return operations
