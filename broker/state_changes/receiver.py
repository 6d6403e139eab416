"""Works off the state-change requests in this broker's own queue.

A request is a hint with a fence: what it asks is done only if ZooKeeper still says so (Q7), a request
of another incarnation of the topic or of an older epoch is superseded (Q1), and doing one twice
changes nothing, so it is removed from the queue only after it was done.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from broker.assignments import Assignments
from broker.recorder import Recorder
from broker.replica import Replica
from broker.replica_manager import ReplicaManager
from strandline.adapters import queue_znodes, znodes
from strandline.adapters.crash_points import crash_point
from strandline.config import TopicConfig
from strandline.errors import InvalidConfig
from strandline.ids import NO_EPOCH, LeaderEpoch, PartitionId, PartitionKey, TopicPartition
from strandline.ports import Clock, ConnectionLost, Coordination, NoNode
from strandline.state_changes import Command, StateChange

logger = structlog.get_logger(__name__)

REQUESTS_PER_ZNODE_MAX: Final = 1_000
ENTRIES_PER_ROUND_MAX: Final = 200
READ_AGAIN_S: Final = 0.1


class StateChangeReceiver:
    """One session's. `run` is its task."""

    def __init__(
        self,
        manager: ReplicaManager,
        session: Coordination,
        recorder: Recorder,
        clock: Clock,
        vacant: Callable[[Replica, bool], None],
    ) -> None:
        self._manager = manager
        self._session = session
        self._recorder = recorder
        self._clock = clock
        self._vacant = vacant
        self._queue = znodes.state_queue(manager.me)
        self._queue_changed = asyncio.Event()

    async def open(self) -> None:
        """Make sure of the folder and set the watch."""
        await self._session.ensure_path(self._queue)
        self._session.watch_children(self._queue, lambda _: self._queue_changed.set())

    async def run(self) -> None:
        """Drain the queue whenever it changes. Runs until cancelled."""
        while True:
            await self._queue_changed.wait()
            self._queue_changed.clear()
            try:
                await self.drain()
            except ConnectionLost:
                await self._clock.sleep(READ_AGAIN_S)
                self._queue_changed.set()

    def look_again(self) -> None:
        """Have `run` read the queue, whether the watch fired or not."""
        self._queue_changed.set()

    async def drain(self) -> None:
        """Do everything that is queued now, in order, then remove it."""
        while True:
            entries = sorted(await self._session.children(self._queue))[:ENTRIES_PER_ROUND_MAX]
            if not entries:
                return
            async with asyncio.TaskGroup() as tasks:
                reads = [tasks.create_task(self._read(f"{self._queue}/{entry}")) for entry in entries]
            changes = [change for read in reads for change in read.result()]
            await self._carry_out(changes)
            crash_point("state_change.before_remove")
            await self._remove([f"{self._queue}/{entry}" for entry in entries])

    async def _read(self, path: str) -> list[StateChange]:
        try:
            return queue_znodes.load_state_changes((await self._session.get(path)).data)
        except NoNode:
            return []
        except ValueError as error:
            logger.error("removing a malformed state-change request", path=path, reason=str(error))
            return []

    async def _remove(self, paths: list[str]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for path in paths:
                tasks.create_task(self._delete(path))

    async def _delete(self, path: str) -> None:
        try:
            await self._session.delete(path)
        except NoNode:
            return

    async def _carry_out(self, changes: list[StateChange]) -> None:
        """Start what has to be started, all partitions side by side; then delete what has to go."""
        topics = await self._read_topics({change.topic for change in changes})
        starts: dict[PartitionKey, StateChange] = {}
        for change in changes:
            logger.debug(
                "state change received",
                id=change.request_id,
                command=change.command.value,
                partition=f"{change.topic}-{change.key.partition}",
                epoch=change.leader_epoch,
                requester=change.requester,
            )
            if change.command is Command.DELETE_REPLICA:
                starts.pop(change.key, None)
                await self._delete_replica(change)
            else:
                starts[change.key] = change
        assignments = await Assignments.listed(self._session)
        async with asyncio.TaskGroup() as tasks:
            for change in starts.values():
                tasks.create_task(self._start_replica(change, topics.get(change.topic), assignments))

    async def _read_topics(self, names: set[str]) -> dict[str, znodes.TopicNode]:
        found: dict[str, znodes.TopicNode] = {}

        async def read(name: str) -> None:
            try:
                found[name] = znodes.load_topic(name, (await self._session.get(znodes.topic(name))).data)
            except NoNode:
                return
            except ValueError as error:
                logger.error("not a topic", topic=name, reason=str(error))

        async with asyncio.TaskGroup() as tasks:
            for name in names:
                tasks.create_task(read(name))
        return found

    async def _start_replica(
        self, change: StateChange, node: znodes.TopicNode | None, assignments: Assignments
    ) -> None:
        replica = self._manager.get(change.key)
        if node is None or node.topic_id != change.key.topic_id:
            logger.info("superseded: the topic is gone", id=change.request_id, topic=change.topic)
        elif replica is not None and change.leader_epoch < replica.leader_epoch and change.requester >= 0:
            # A leader's request of an epoch that is over. The controller's only say "read again".
            logger.debug(
                "superseded: a later epoch is known", id=change.request_id, epoch=change.leader_epoch
            )
        else:
            await self.start(
                change.topic, change.key.partition, node, assignments, led_in=change.leader_epoch
            )

    async def start(
        self,
        topic: str,
        partition: int,
        node: znodes.TopicNode,
        assignments: Assignments,
        *,
        led_in: LeaderEpoch = NO_EPOCH,
    ) -> None:
        """Have the replica that ZooKeeper assigns to this broker, and find out who leads it.

        `led_in` is the epoch of the leader who asked: one of an older epoch learns here that it is deposed.
        """
        name, key = TopicPartition(topic, partition), PartitionKey(node.topic_id, PartitionId(partition))
        try:
            assignment = await assignments.read(topic, key)
            config = TopicConfig.parse(node.config)
        except NoNode:
            return
        except (ValueError, InvalidConfig) as error:
            logger.error("cannot start a replica", partition=f"{topic}-{partition}", reason=str(error))
            return
        if self._manager.me not in assignment.replicas:
            if (existing := self._manager.get(key)) is not None:
                self._manager.reconfigure(existing, assignment, config)
            return
        replica = self._manager.create(name, key, config)
        self._manager.reconfigure(replica, assignment, config)
        if replica.leadership is None or replica.leadership.epoch < led_in:
            self._vacant(replica, False)

    async def _delete_replica(self, change: StateChange) -> None:
        replica = self._manager.get(change.key)
        if replica is None:
            return
        aside = self._manager.delete(replica)
        logger.info(
            "replica deleted", id=change.request_id, partition=str(replica.name), topic_id=change.key.topic_id
        )
        await asyncio.to_thread(shutil.rmtree, Path(aside), True)
