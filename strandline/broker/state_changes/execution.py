"""Carries out state-change requests, as far as ZooKeeper still agrees with them.

A request is a hint with a fence (CORRECTNESS Q7): the znodes of its partition decide what is done, not its
content. A request that they contradict, or that is of another incarnation of the topic or of an older epoch,
is superseded (CORRECTNESS Q1, E6). Executing one twice changes nothing.

A change of a replica is decided after the last read and done before the next await, so nothing happens in
between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import structlog

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import Reader
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.broker.core.election.election import leader_stands
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.core.replication.replica_states import ReplicaState
from strandline.broker.facts.assignments import Assignments
from strandline.broker.replicas.replica import Replica
from strandline.broker.replicas.session_context import SessionContext
from strandline.errors import InvalidConfig, StorageBusy, StorageFailed, StrandlineError
from strandline.ids import NO_BROKER, NO_EPOCH, LeaderEpoch, PartitionId, PartitionKey, TopicPartition
from strandline.ports import NoNode
from strandline.vocabulary.metadata import PartitionState
from strandline.vocabulary.state_changes import Command, RequestState, StateChange
from strandline.vocabulary.topic_config import TopicConfig

logger = structlog.get_logger(__name__)

COMPLETED, SUPERSEDED, FAILED = RequestState.COMPLETED, RequestState.SUPERSEDED, RequestState.FAILED


Topic = znodes.TopicNode | ValueError | None
"""The content of a topic's znode; ValueError if it is unreadable, None if it does not exist."""


async def read_topic(session: Reader, name: str) -> Topic:
    """Raises ConnectionLost."""
    try:
        return znodes.load_topic(name, (await session.get(znodes.topic(name))).data)
    except NoNode:
        return None
    except ValueError as error:
        return error


class ExecutionResult(NamedTuple):
    state: RequestState
    reason: str = ""


class _PartitionFacts(NamedTuple):
    """What ZooKeeper holds about one partition, of the incarnation that a request means."""

    assignment: PartitionAssignment
    config: TopicConfig
    record: PartitionState | None
    """Read before the assignment: for a close-replica, and to start a replica that is closed."""


class Executor:
    """Executes the requests of one session."""

    def __init__(self, context: SessionContext, vacant: Callable[[Replica], None]) -> None:
        self._manager = context.manager
        self._session = context.coordination
        self._vacant = vacant
        self._requested_epochs: dict[PartitionKey, LeaderEpoch] = {}
        """The highest epoch in which a leader sent a request; a deleted partition is dropped."""

    async def execute(self, change: StateChange, topic: Topic, assignments: Assignments) -> ExecutionResult:
        """`topic` and `assignments` were read after the request. Raises ConnectionLost, SessionEnded."""
        try:
            facts = await self._read(change, topic, assignments)
            if facts is None:
                if change.command is not Command.DELETE_REPLICA:
                    return ExecutionResult(SUPERSEDED, "the topic, or this incarnation of it, is gone")
                return await self._delete(change)
            match change.command:
                case Command.START_REPLICA:
                    return self._start(change, facts)
                case Command.CLOSE_REPLICA:
                    return await self._close(change, facts)
                case Command.DELETE_REPLICA:
                    if self._manager.me in facts.assignment.replicas:
                        self._ensure_replica(change.topic, change.key, facts)
                        return ExecutionResult(SUPERSEDED, "the replica is assigned to this broker again")
                    return await self._delete(change)
        except (ValueError, InvalidConfig, OSError, StorageFailed, StorageBusy) as error:
            return ExecutionResult(FAILED, str(error))

    async def _read(
        self, change: StateChange, topic: Topic, assignments: Assignments
    ) -> _PartitionFacts | None:
        """None if the partition is gone, or another incarnation of the topic has its name.

        Raises ValueError.
        """
        if isinstance(topic, ValueError):
            raise topic
        if topic is None or topic.topic_id != change.key.topic_id:
            return None
        record: PartitionState | None = None
        try:
            if change.command is Command.CLOSE_REPLICA:
                record = await self._read_record(change.topic, change.key)
            elif change.command is Command.START_REPLICA:
                record = await self._read_record_if_closed(change.topic, change.key)
            assignment = await assignments.read(change.topic, change.key)
        except NoNode:
            return None
        refuses = change.command is Command.DELETE_REPLICA and self._manager.me in assignment.replicas
        takes_over = self._another_has_the_name(change.topic, change.key)
        if (refuses or takes_over) and not await self._is_still(change.topic, change.key):
            return None  # what was read is of a topic that has just taken the name
        return _PartitionFacts(assignment, TopicConfig.parse(topic.config), record)

    def _another_has_the_name(self, topic: str, key: PartitionKey) -> bool:
        """True if requests by name go to a replica of another incarnation."""
        try:
            return self._manager.named(topic, key.partition).key != key
        except StrandlineError:
            return False

    async def _is_still(self, topic: str, key: PartitionKey) -> bool:
        """True if this incarnation has the name now. Raises ValueError."""
        now = await read_topic(self._session, topic)
        if isinstance(now, ValueError):
            raise now
        return now is not None and now.topic_id == key.topic_id

    async def _read_record_if_closed(self, topic: str, key: PartitionKey) -> PartitionState | None:
        return None if self._manager.closed(key) is None else await self._read_record(topic, key)

    async def _read_record(self, topic: str, key: PartitionKey) -> PartitionState:
        raw = await self._session.get(znodes.isr(topic, key.partition))
        return isr_znodes.load_isr(topic, key.partition, raw.data)

    # --- start -------------------------------------------------------------------------------

    def _start(self, change: StateChange, facts: _PartitionFacts) -> ExecutionResult:
        if (newer := self._newer(change)) is not None:
            return newer
        if self._manager.me not in facts.assignment.replicas:
            self._ensure_replica(change.topic, change.key, facts)
            return ExecutionResult(SUPERSEDED, "the replica is not assigned to this broker")
        by_leader = change.requester != NO_BROKER
        if by_leader:
            self._requested_epochs[change.key] = change.leader_epoch
        self._ensure_replica(change.topic, change.key, facts, led_in=change.leader_epoch, reopen=by_leader)
        return ExecutionResult(COMPLETED)

    async def ensure_replica(
        self, topic: str, node: znodes.TopicNode, assignments: Assignments, partition: int
    ) -> PartitionKey | None:
        """Ensure the replica that ZooKeeper assigns to this broker, and find its leader. None if none is
        assigned.

        Raises ConnectionLost. A problem with one partition does not affect the others.
        """
        key = PartitionKey(node.topic_id, PartitionId(partition))
        try:
            record = await self._read_record_if_closed(topic, key)
            assignment = await assignments.read(topic, key)
            if self._another_has_the_name(topic, key) and not await self._is_still(topic, key):
                return None
            self._ensure_replica(
                topic, key, _PartitionFacts(assignment, TopicConfig.parse(node.config), record)
            )
        except NoNode:
            return None
        except (ValueError, InvalidConfig, OSError, StorageFailed, StorageBusy) as error:
            logger.error("cannot start a replica", partition=f"{topic}-{partition}", reason=str(error))
            return None
        return key if self._manager.me in assignment.replicas else None

    def _ensure_replica(
        self,
        topic: str,
        key: PartitionKey,
        facts: _PartitionFacts,
        *,
        led_in: LeaderEpoch = NO_EPOCH,
        reopen: bool = False,
    ) -> None:
        """`led_in` is the epoch of the leader that sent the request: a leader of an older epoch learns here
        that it is deposed. While a reassignment is to remove it, a closed replica stays closed, unless a
        leader requests it, or no leader stands: it may be the one that has to lead (CORRECTNESS Q8)."""
        manager, name = self._manager, TopicPartition(topic, key.partition)
        if manager.me not in facts.assignment.replicas:
            existing = manager.get(key)
            if existing is not None:
                manager.reconfigure(existing, facts.assignment, facts.config)
            return
        closed = manager.closed(key)
        if closed is None:
            replica = manager.create(name, key, facts.config)
        elif reopen or manager.me in facts.assignment.target or self._is_vacant(key, facts.record):
            manager.reopen(closed)
            replica = closed
        else:
            return
        manager.reconfigure(replica, facts.assignment, facts.config)
        if replica.leadership is None or replica.leadership.epoch < led_in:
            self._vacant(replica)

    def _is_vacant(self, key: PartitionKey, record: PartitionState | None) -> bool:
        """True if no leader stands by this record, and it is not older than what is known here."""
        return (
            record is not None
            and record.leader_epoch >= self._known_epoch(key)
            and not leader_stands(record, self._manager.live, frozenset())
        )

    # --- close and delete --------------------------------------------------------------------

    async def _close(self, change: StateChange, facts: _PartitionFacts) -> ExecutionResult:
        if (newer := self._newer(change)) is not None:
            return newer
        record = facts.record
        if record is not None and record.leader_epoch > change.leader_epoch:
            return ExecutionResult(SUPERSEDED, f"epoch {record.leader_epoch} has begun")
        if self._manager.me in facts.assignment.target:
            self._ensure_replica(change.topic, change.key, facts)
            return ExecutionResult(SUPERSEDED, "the replica is to stay on this broker")
        if record is None or not self._leads(change, record):
            # The next leader asks again if it has to be closed.
            self._ensure_replica(change.topic, change.key, facts)
            return ExecutionResult(
                SUPERSEDED,
                f"broker {change.requester} does not lead in epoch {change.leader_epoch} any longer",
            )
        self._requested_epochs[change.key] = change.leader_epoch
        replica = self._manager.get(change.key)
        if replica is None:
            was = "closed" if self._manager.closed(change.key) is not None else "not here"
            return ExecutionResult(COMPLETED, f"it was {was}")
        if replica.leadership is not None and replica.leadership.epoch < change.leader_epoch:
            self._manager.step_down(replica, record)
        try:
            await self._manager.host.threads.run(replica.log.flush)
        except (StorageFailed, StorageBusy):
            logger.warning("closed without a sync", partition=str(replica.name))
        if (newer := self._newer(change)) is not None:  # it may follow another leader by now, or lead
            return newer
        if replica.leadership is not None:
            return ExecutionResult(
                FAILED,
                f"{replica.state.value} → {ReplicaState.CLOSING.value} is illegal: it leads in epoch "
                f"{replica.leadership.epoch}, and was asked to close in epoch {change.leader_epoch}",
            )
        if self._manager.get(change.key) is replica:  # and not removed, as a stray
            self._manager.close_replica(replica)
            logger.info("replica closed", id=change.request_id, partition=str(replica.name))
        return ExecutionResult(COMPLETED)

    async def _delete(self, change: StateChange) -> ExecutionResult:
        self._requested_epochs.pop(change.key, None)
        replica = self._manager.get(change.key) or self._manager.closed(change.key)
        if replica is None:
            return ExecutionResult(COMPLETED, "it was not here")
        await self.remove(replica)
        logger.info(
            "replica deleted", id=change.request_id, partition=str(replica.name), topic_id=change.key.topic_id
        )
        return ExecutionResult(COMPLETED)

    async def remove(self, replica: Replica) -> None:
        """Remove a replica from memory and disk. Raises OSError."""
        aside = self._manager.delete(replica)
        await self._manager.removing.remove(aside)

    def _leads(self, change: StateChange, record: PartitionState) -> bool:
        """True if the leader that sent the request leads by this record, in the life and epoch of then."""
        return (
            record.leader == change.requester
            and record.leader_epoch == change.leader_epoch
            and leader_stands(record, self._manager.live, frozenset())
        )

    def _newer(self, change: StateChange) -> ExecutionResult | None:
        """The outcome of a leader's request if a later epoch is known here. Requests of the controller have
        no epoch."""
        known = self._known_epoch(change.key)
        if change.requester == NO_BROKER or change.leader_epoch >= known:
            return None
        return ExecutionResult(SUPERSEDED, f"epoch {known} is known here, and {change.leader_epoch} is over")

    def _known_epoch(self, key: PartitionKey) -> LeaderEpoch:
        replica = self._manager.get(key) or self._manager.closed(key)
        return max(
            NO_EPOCH if replica is None else replica.leader_epoch,
            self._requested_epochs.get(key, NO_EPOCH),
        )
