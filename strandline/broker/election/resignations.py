"""Writes resignations of this broker's leaderships, many in one `multi`, and names the next leaders.

A resignation is fenced by the same compare-and-set on `isr` as an election. After it this broker can no
longer commit, and the next candidate starts from the same members. The facts read before are checked in the
same `multi`, so no broker is named that is shutting down by then (CORRECTNESS I7).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Final

import structlog

from strandline.adapters.system.crash_points import crash_point
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import read_drains, read_isr, read_registration
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.broker.core.election.election import successor
from strandline.broker.core.state_changes.events import resigned
from strandline.broker.replicas.leader_znodes import fence_operations, notice_operation
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.local_replica import LocalReplica
from strandline.broker.replicas.session_context import SessionContext
from strandline.config.limits import ZNODE_BYTES_MAX, ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.ids import NO_BROKER, BrokerId, LeaderEpoch
from strandline.ports import (
    Check,
    ConnectionLost,
    MultiFailed,
    Operation,
)
from strandline.tasks import pipelined
from strandline.vocabulary.metadata import IsrMember, PartitionState, Registration
from strandline.vocabulary.state_changes import AskedBy

logger = structlog.get_logger(__name__)

RESIGNATIONS_PER_MULTI_MAX: Final = 50
MULTIS_IN_FLIGHT_MAX: Final = 4
TRY_AGAIN_S: Final = 0.05
TRIES_MAX: Final = 5
"""Attempts at an optional handover; a mandatory one is retried until its outcome is known."""


class Place(Enum):
    """What happens to the resigning broker's place in the ISR, if it is not the last member."""

    KEPT = "kept"
    """It follows from now on, and has all records."""
    LEFT_IF_ENOUGH = "left if enough others are in sync"
    """It shuts down: commits of the next leader should not wait until it is gone."""
    LEFT = "left"
    """Its log failed."""


@dataclass(eq=False, slots=True)
class Resignation:
    """A leadership that should end, and the outcome."""

    replica: LocalReplica
    epoch: LeaderEpoch
    reason: str
    to: BrokerId | None = None
    """The broker that must be the successor, otherwise the leadership stays. None: resign in any case, for
    any successor."""
    place: Place = Place.KEPT
    by: AskedBy | None = None
    """The caller that asked for it; None: no caller did."""
    leadership: Leadership | None = None
    """The leadership, if this broker still exercises it."""
    outcome: asyncio.Future[BrokerId | None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    """The present or next leader, NO_BROKER if there is none; None: this broker continues to lead."""

    def settle(self, outcome: BrokerId | None) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def fail(self, error: Exception) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)
            self.outcome.exception()  # marked as retrieved, even if the waiting task was cancelled


@dataclass(frozen=True, slots=True)
class _Peers:
    """The members of some ISRs as they are registered now."""

    live: Mapping[BrokerId, Registration]
    versions: Mapping[BrokerId, int]
    avoided: frozenset[BrokerId]
    """Drained or suspected brokers: named only if there is no other."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    resignation: Resignation
    after: PartitionState
    version: int
    next_leader: BrokerId | None
    leader_node_stands: bool


class Resignations:
    """The resignations of one session. Those that arrive while a `multi` is under way go into the next
    one."""

    def __init__(self, context: SessionContext) -> None:
        self._me = context.me
        self._peers = context.peers
        self._session = context.coordination
        self._recorder = context.recorder
        self._clock = context.clock
        self._waiting: list[Resignation] = []
        self._multis = asyncio.Semaphore(MULTIS_IN_FLIGHT_MAX)

    async def hand_in(self, resignation: Resignation) -> BrokerId | None:
        """Writes the resignation. Returns its outcome."""
        self._waiting.append(resignation)
        async with self._multis:
            await asyncio.sleep(0)  # resignations that are ready now join the batch
            batch = self._waiting[:RESIGNATIONS_PER_MULTI_MAX]
            del self._waiting[:RESIGNATIONS_PER_MULTI_MAX]
            try:
                await self._write(batch)
            except Exception as error:  # the session is over, for all of them
                for each in batch:
                    each.fail(error)
                if resignation not in batch:
                    raise
        return await resignation.outcome

    async def _write(self, batch: Sequence[Resignation]) -> None:
        """Writes all together. If that fails, writes each alone, since one may block the others."""
        try:
            await self._together(batch)
        except (MultiFailed, ConnectionLost) as error:
            logger.debug("resigning one by one", partitions=len(batch), reason=str(error))
            async with asyncio.TaskGroup() as tasks:
                for each in batch:
                    tasks.create_task(self._alone(each))

    async def _together(self, batch: Sequence[Resignation]) -> None:
        found = await pipelined(self._read, batch, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        peers = await self._read_peers(broker for state, _ in found for broker in state.isr_ids)
        prepared = [
            ready
            for resignation, (state, version) in zip(batch, found, strict=True)
            if (ready := self._prepare(resignation, state, version, peers)) is not None
        ]
        # Trails may be long: resignations that do not fit into a znode's bound are written separately.
        while prepared:
            part, prepared = _cut(prepared)
            await self._commit(part, peers)

    async def _alone(self, resignation: Resignation) -> None:
        """Tries until the outcome is known. After a connection lost under a `multi` the outcome is unknown:
        this broker may continue to lead only if a read that follows all pending writes says so."""
        replica = resignation.replica
        tries = 0
        while not resignation.outcome.done():
            try:
                await self._session.sync(znodes.isr(replica.name.topic, replica.name.partition))
                state, version = await self._read(resignation)
                peers = await self._read_peers(state.isr_ids)
                leader_node = await self._session.exists(
                    znodes.leader(replica.name.topic, replica.name.partition)
                )
                ready = self._prepare(
                    resignation, state, version, peers, leader_node_stands=leader_node is not None
                )
                if ready is None:
                    return
                tries += 1
                if tries > TRIES_MAX and resignation.to is not None:
                    resignation.settle(None)
                    return
                await self._commit([ready], peers)
            except (MultiFailed, ConnectionLost) as error:
                # An ISR change of ours was under way, or the outcome is unknown: read, and try again.
                logger.debug("resignation not recorded yet", partition=str(replica.name), reason=str(error))
                await self._clock.sleep(TRY_AGAIN_S)

    # --- reading -------------------------------------------------------------------------------

    async def _read(self, resignation: Resignation) -> tuple[PartitionState, int]:
        """Reads `isr` and its version. If the partition is gone or the znode is unreadable, returns a state
        without a leader. Then nothing is written over it, and the leader znode ends with the session."""
        found = await read_isr(self._session, *resignation.replica.name)
        if found is None:
            return PartitionState(NO_BROKER, resignation.epoch, ()), 0
        return found.value, found.version

    async def _read_peers(self, members: Iterable[BrokerId]) -> _Peers:
        brokers = sorted(set(members) - {self._me})
        found = await pipelined(
            partial(read_registration, self._session), brokers, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX
        )
        registered = {b: each for b, each in zip(brokers, found, strict=True) if each is not None}
        live = {broker: each.value for broker, each in registered.items()}
        versions = {broker: each.version for broker, each in registered.items()}
        suspects = self._peers.suspects
        suspected = {broker for broker, each in live.items() if each.epoch in suspects}
        return _Peers(live, versions, frozenset(await read_drains(self._session)) | suspected)

    # --- writing -------------------------------------------------------------------------------

    def _prepare(
        self,
        resignation: Resignation,
        state: PartitionState,
        version: int,
        peers: _Peers,
        *,
        leader_node_stands: bool = True,
    ) -> _Prepared | None:
        """What to write. None if there is nothing to write; then the outcome is set."""
        replica, epoch, me = resignation.replica, resignation.epoch, self._me
        if (state.leader, state.leader_epoch) != (me, epoch):
            resignation.settle(state.leader)  # another broker leads already, or it is written
            return None
        if resignation.to is None:
            next_leader = successor(state, replica.assigned, peers.live, peers.avoided)
        else:
            next_leader = successor(state, (resignation.to,), peers.live)
            if next_leader is None:
                resignation.settle(None)
                return None
        members = self._members(resignation, state)
        after = PartitionState(NO_BROKER, epoch, members, lossy_epoch=state.lossy_epoch)
        event = resigned(
            replica.name.topic,
            replica.key,
            me,
            after,
            at_ms=self._clock.wall_ms(),
            reason=resignation.reason,
            left=() if me in after else (me,),
            by=resignation.by,
        )
        after = replace(after, trail=replica.trail.extended(state.trail, event))
        return _Prepared(resignation, after, version, next_leader, leader_node_stands)

    def _members(self, resignation: Resignation, state: PartitionState) -> tuple[IsrMember, ...]:
        """The remaining ISR. The last member stays in it: no other replica has all committed records. A
        leader stays, too, while no other member is known to have a log: otherwise none could lead after its
        next start (CORRECTNESS E18)."""
        replica = resignation.replica
        others = tuple(member for member in state.isr if member.broker != self._me)
        if resignation.place is Place.KEPT or not any(_has_log(resignation, member) for member in others):
            return state.isr
        enough = 1
        if resignation.place is Place.LEFT_IF_ENOUGH:
            enough = replica.config.min_insync(replica.assignment.replication_factor)
        return others if len(others) >= enough else state.isr

    async def _commit(self, part: Sequence[_Prepared], peers: _Peers) -> None:
        """Writes one `multi` for all of these."""
        named: dict[tuple[BrokerId, str], list[tuple[LocalReplica, LeaderEpoch]]] = defaultdict(list)
        for each in part:
            if each.next_leader is not None:
                resignation = each.resignation
                named[each.next_leader, resignation.reason].append((resignation.replica, resignation.epoch))
        operations: list[Operation] = [
            Check(znodes.broker(broker), peers.versions[broker])
            for broker in sorted({broker for broker, _ in named})
        ]
        for each in part:
            operations += fence_operations(
                each.resignation.replica,
                each.after,
                each.version,
                leader_node_stands=each.leader_node_stands,
            )
        operations += [notice_operation(broker, ended, reason) for (broker, reason), ended in named.items()]
        crash_point("handover.before_notice")
        await self._session.multi(operations)
        crash_point("handover.after_notice")
        for each in part:
            each.resignation.replica.trail.written(each.after.trail, self._recorder)
            each.resignation.settle(NO_BROKER if each.next_leader is None else each.next_leader)


def _has_log(resignation: Resignation, member: IsrMember) -> bool:
    """True if this member of the ISR is known to have had a log since it became one. A new topic's members
    may be without: they have it once they report a position, and all have it once a record is committed."""
    leadership = resignation.leadership
    if leadership is None or leadership.ended() or leadership.core.follower_end(member.broker) < 0:
        return resignation.replica.high_watermark > 0
    return True


def _cut(prepared: list[_Prepared]) -> tuple[list[_Prepared], list[_Prepared]]:
    """Returns (those that fit into one `multi`, at least one; the others)."""
    size = 0
    for index, each in enumerate(prepared):
        size += len(isr_znodes.dump_isr(each.after))
        if size > ZNODE_BYTES_MAX and index > 0:
            return prepared[:index], prepared[index:]
    return prepared, []
