"""Broker 2 at its queue of requests, and what ZooKeeper in memory says of its one partition."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import queue_znodes, reassignment_znodes
from strandline.broker.core.replication.replica_states import ReplicaState
from strandline.broker.replicas.replica import Replica
from strandline.ids import BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.ports import Delete, SetData
from strandline.vocabulary.metadata import Reassignment
from strandline.vocabulary.state_changes import Command, RequestState, StateChange, StateChangeEvent
from tests.broker.support.replicas import ASSIGNED, KEY, NAME
from tests.broker.support.seat import ME, Seat
from tests.waiting import eventually

START, CLOSE, DELETE = Command.START_REPLICA, Command.CLOSE_REPLICA, Command.DELETE_REPLICA
COMPLETED, SUPERSEDED, FAILED = RequestState.COMPLETED, RequestState.SUPERSEDED, RequestState.FAILED
QUEUE = znodes.state_queue(ME)
OTHER = PartitionKey(TopicId("1" * 32), PartitionId(0))
"""The id of another incarnation of the topic."""

_numbers = count()


@dataclass
class QueueBench:
    """Broker 2 and its queue."""

    seat: Seat

    # --- what ZooKeeper has ------------------------------------------------------------------

    def set(self, path: str, data: bytes) -> None:
        self.seat.tree.apply(SetData(path, data), owner=0)

    def assign(self, *brokers: int) -> None:
        self.set(znodes.replicas(*NAME), znodes.dump_replicas(brokers))

    async def moves_away(self) -> None:
        """A reassignment is to take the partition from broker 2 to 4."""
        wanted = Reassignment(KEY.topic_id, (BrokerId(1), BrokerId(4), BrokerId(3)), ASSIGNED)
        path = znodes.reassigned(*NAME)
        await self.seat.coordination.ensure_path(path)
        self.set(path, reassignment_znodes.dump_reassignment(wanted))
        self.assign(*wanted.grown)

    async def stays(self) -> None:
        """It was cancelled."""
        for path in (znodes.reassigned(*NAME), znodes.reassigned_topic(NAME.topic)):
            self.seat.tree.apply(Delete(path), owner=0)
        self.assign(*ASSIGNED)

    # --- the queue -----------------------------------------------------------------------------

    async def queue(self, *changes: StateChange) -> None:
        data = queue_znodes.dump_state_changes(changes)
        await self.seat.coordination.create(znodes.state_entry_prefix(ME), data, sequential=True)

    async def asked(
        self, command: Command, epoch: int = 5, requester: int = 1, key: PartitionKey = KEY
    ) -> StateChangeEvent:
        """The end of one request, once its znode is gone."""
        change = request(command, epoch, requester, key)
        await self.queue(change)
        await self.drained()
        (end,) = self.ends(change)
        return end

    async def drained(self) -> None:
        await self.seat.receiver.drain()
        await eventually(lambda: self.seat.tree.children(QUEUE) == [])

    def ends(self, change: StateChange) -> list[StateChangeEvent]:
        return [
            event
            for event in self.seat.recorder.events
            if event.id == change.request_id and event.state in (COMPLETED, SUPERSEDED, FAILED)
        ]


def state(replica: Replica) -> ReplicaState:
    """Its present state, after any earlier one."""
    return replica.state


def request(command: Command, epoch: int = 5, requester: int = 1, key: PartitionKey = KEY) -> StateChange:
    number = f"request {next(_numbers)}"
    return StateChange(number, command, NAME.topic, key, LeaderEpoch(epoch), BrokerId(requester), at_ms=1)
