"""Carries out a leader's decisions about its partition's reassignment: two writes, each one `multi`.

Both check the versions of the facts that they were decided on, so a reassignment that was replaced, cancelled
or completed meanwhile is left alone. After each write, failed or not, the
leader reads again and decides the next step on the result.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import structlog

from strandline.adapters.system.crash_points import crash_point
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes, queue_znodes
from strandline.broker.core.replication.effects import CloseReplicas, CompleteReassignment
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.core.state_changes.events import resigned
from strandline.broker.events.replica_events import EventRecorder
from strandline.broker.facts.assignments import Assignments
from strandline.broker.facts.isr_record import LOOK_AGAIN_S, read_isr
from strandline.broker.replicas.leader_znodes import resign_operations
from strandline.broker.replicas.local_replica import LocalReplica
from strandline.host import Host
from strandline.ids import NO_BROKER, BrokerId, LeaderEpoch
from strandline.ports import (
    Check,
    ConnectionLost,
    Coordination,
    Create,
    Delete,
    MultiFailed,
    NoNode,
    NotEmpty,
    Operation,
    SetData,
)
from strandline.vocabulary.metadata import PartitionState
from strandline.vocabulary.reassignment_events import reassignment_ended
from strandline.vocabulary.state_changes import Command, StateChange, life_of

logger = structlog.get_logger(__name__)

REASON: Final = "reassignment"
CLOSE_REASON: Final = "its replacements are all in sync"

Requests = dict[BrokerId, StateChange]


class Reassigning:
    """The reassignment of one leadership. Its commit task awaits these methods one at a time."""

    def __init__(
        self, replica: LocalReplica, session: Coordination, recorder: EventRecorder, host: Host
    ) -> None:
        self._replica = replica
        self._session = session
        self._recorder = recorder
        self._clock = host.clock
        self._new_id = host.new_id

    async def close(self, move: CloseReplicas, me: BrokerId, epoch: LeaderEpoch) -> bool:
        """Asks AR − RAR to stop fetching. Returns False if the request may not have been written; the
        assignment was then read again."""
        name, assignment = self._replica.name, move.assignment
        requests = self._requests(Command.CLOSE_REPLICA, move.brokers, me, epoch, CLOSE_REASON)
        crash_point("reassign.before_close")
        try:
            queued = await self._queued(requests)
            await self._session.multi(
                [
                    Check(znodes.replicas(*name), assignment.version),
                    Check(znodes.reassigned(*name), assignment.reassignment_version),
                    znodes.of_incarnation(self._replica.key.topic_id),
                    *queued,
                ]
            )
        except (MultiFailed, ConnectionLost) as error:
            logger.info("not asked to close yet", partition=str(name), reason=str(error))
            await self._look_again()
            return False
        crash_point("reassign.after_close")
        self._record(requests)
        logger.info("asked to close", partition=str(name), epoch=epoch, brokers=list(move.brokers))
        return True

    async def complete(self, move: CompleteReassignment, me: BrokerId) -> tuple[PartitionState | None, int]:
        """Makes RAR the AR. Returns the content of `isr` afterwards, whichever broker wrote it. The replica's
        assignment is then ZooKeeper's."""
        replica, name, epoch = self._replica, self._replica.name, move.state.leader_epoch
        state = self._with_trail(move, me)
        requests = {
            **self._requests(Command.DELETE_REPLICA, move.removed, me, epoch, "reassigned to other brokers"),
            **self._requests(
                Command.START_REPLICA, (b for b in move.assigned if b != me), me, epoch, "reassigned"
            ),
        }
        crash_point("reassign.before_complete")
        try:
            queued = await self._queued(requests)
            replicas_version, _, isr_version, *_ = await self._session.multi(
                [*self._operations(move, state), *queued]
            )
        except (MultiFailed, ConnectionLost) as error:
            logger.info("not reassigned, or the outcome is unknown", partition=str(name), reason=str(error))
            await self._look_again()
            found, version = await read_isr(self._session, self._clock, name)
            if found is not None and found.leader_epoch == epoch:
                replica.trail.written(found.trail, self._recorder)
            return found, version
        crash_point("reassign.after_complete")
        assert isinstance(replicas_version, int)
        assert isinstance(isr_version, int)
        replica.assignment = PartitionAssignment(move.assigned, replicas_version)
        replica.trail.written(state.trail, self._recorder)
        self._record(requests)
        logger.info(
            "reassigned",
            partition=str(name),
            epoch=epoch,
            replicas=list(move.assigned),
            isr=list(state.isr_ids),
            removed=list(move.removed),
            next_leader=move.successor,
        )
        with contextlib.suppress(NoNode, NotEmpty, ConnectionLost):  # not empty, or removed next time
            await self._session.delete(znodes.reassigned_topic(name.topic))
        return state, isr_version

    # --- writing -----------------------------------------------------------------------------

    def _operations(self, move: CompleteReassignment, state: PartitionState) -> list[Operation]:
        replica, name, assignment = self._replica, self._replica.name, move.assignment
        if state.leader == NO_BROKER:
            isr = resign_operations(replica, state, move.version, move.successor, REASON)
        else:
            isr = [
                SetData(znodes.isr(*name), isr_znodes.dump_isr(state), move.version),
                znodes.of_incarnation(replica.key.topic_id),
            ]
        return [
            SetData(znodes.replicas(*name), znodes.dump_replicas(move.assigned), assignment.version),
            Delete(znodes.reassigned(*name), assignment.reassignment_version),
            *isr,
        ]

    def _with_trail(self, move: CompleteReassignment, me: BrokerId) -> PartitionState:
        """The new state, with a trail that has the events of this write."""
        replica, state, now = self._replica, move.state, self._clock.wall_ms()
        wanted = move.assignment.reassignment
        assert wanted is not None, f"{replica.name}: there is no reassignment to complete"
        events = reassignment_ended(
            replica.name.topic, replica.key, wanted, state, me, at_ms=now, reason=move.reason
        )
        if state.leader == NO_BROKER:
            event = resigned(
                replica.name.topic,
                replica.key,
                me,
                state,
                at_ms=now,
                reason=REASON,
                left=() if me in state else (me,),
                by=wanted.by,
            )
            events.append(event)
        return replace(state, trail=replica.trail.extended(replica.trail.current, *events))

    def _requests(
        self, command: Command, brokers: Iterable[BrokerId], me: BrokerId, epoch: LeaderEpoch, reason: str
    ) -> Requests:
        replica, now = self._replica, self._clock.wall_ms()
        name, key, moving = replica.name, replica.key, replica.reassignment
        by = None if moving is None else moving.by
        return {
            broker: StateChange(
                self._new_id(), command, name.topic, key, epoch, me, now, reason=reason, by=by
            )
            for broker in brokers
        }

    async def _queued(self, requests: Requests) -> list[Operation]:
        """The operations that queue these. They create missing queues: an operator may have removed one. A
        broker without replicas may be forgotten, so its queue is created only with a check of AR."""
        operations: list[Operation] = []
        for broker, change in requests.items():
            if await self._session.exists(znodes.state_queue(broker)) is None:
                operations.append(Create(znodes.state_queue(broker)))
            data = queue_znodes.dump_state_changes([change])
            operations.append(Create(znodes.state_entry_prefix(broker), data, sequential=True))
        return operations

    def _record(self, requests: Requests) -> None:
        """Records the requests, best effort: the broker that executes a request records its whole life."""
        self._recorder.record(
            [event for broker, change in requests.items() for event in life_of(change, broker)]
        )

    # --- reading -----------------------------------------------------------------------------

    async def _look_again(self) -> None:
        """Reads the assignment after all pending writes. Waits while the connection is lost."""
        replica = self._replica
        while True:
            await self._clock.sleep(LOOK_AGAIN_S)
            try:
                await self._session.sync(znodes.replicas(*replica.name))
                assignments = await Assignments.listed(self._session)
                found = await assignments.read(replica.name.topic, replica.key)
            except NoNode:
                return
            except ValueError as error:
                logger.error("not an assignment", partition=str(replica.name), reason=str(error))
                return
            except ConnectionLost:
                continue
            if not found.older_than(replica.assignment):
                replica.assignment = found
            return
