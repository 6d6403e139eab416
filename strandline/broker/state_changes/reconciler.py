"""Compares the local replicas with what ZooKeeper holds (CORRECTNESS Q7).

The queue of requests is a hint, and bounded: requests that it lost, or never had, are found here. Afterwards
every replica that is assigned to this broker exists; a replica that is not assigned to it is a **stray**, and
is removed.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import partial
from typing import Final

import structlog

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import BulkReads
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.broker.core.replication.replica_states import ReplicaState
from strandline.broker.core.state_changes.events import stray_removed
from strandline.broker.facts.assignments import Assignments
from strandline.broker.replicas.epoch_source import read_epoch
from strandline.broker.replicas.replica import Replica
from strandline.broker.replicas.session_context import SessionContext
from strandline.broker.state_changes.execution import Executor, read_topic
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.ids import BrokerEpoch, PartitionKey
from strandline.ports import NoNode
from strandline.tasks import pipelined

logger = structlog.get_logger(__name__)

STRAYS_AT_ONCE_MAX: Final = 100
"""Strays that are read again, recorded and removed together: what was read is still recent by then."""


class Reconciler:
    """Reconciles the replicas of one session."""

    def __init__(self, context: SessionContext, executor: Executor) -> None:
        self._manager = context.manager
        self._session = context.coordination
        self._recorder = context.recorder
        self._clock = context.clock
        self._executor = executor

    async def read_assignments(self) -> frozenset[PartitionKey]:
        """Read every topic, and ensure each replica that is assigned to this broker; returns their keys.

        Raises ConnectionLost.
        """
        await self._session.sync(znodes.TOPICS)
        topics = znodes.topic_names(await self._session.children(znodes.TOPICS))
        bulk = BulkReads(self._session)
        read = partial(self._read_topic, bulk, await Assignments.listed(bulk))
        found = await pipelined(read, topics, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        return frozenset(key for keys in found for key in keys if key is not None)

    async def _read_topic(
        self, bulk: BulkReads, assignments: Assignments, name: str
    ) -> list[PartitionKey | None]:
        topic = await read_topic(bulk, name)
        if topic is None:
            return []
        if isinstance(topic, ValueError):
            logger.error("not a topic", topic=name, reason=str(topic))
            return []
        ensure = partial(self._executor.ensure_replica, name, topic, assignments)
        return await pipelined(ensure, range(topic.partitions), in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)

    async def remove_strays(
        self, assigned: Container[PartitionKey], cluster_id: str, life: BrokerEpoch
    ) -> None:
        """`assigned` are the keys that were just confirmed, after the queue was drained. Raises
        ConnectionLost.

        A replica is removed only if ZooKeeper explicitly assigns its partition elsewhere or lacks the topic;
        if a znode cannot be read the replica stays. `cluster_id` and `life` are those under which this broker
        registered.
        """
        suspects = [replica for replica in self._manager.all() if replica.key not in assigned]
        if not suspects or not await self._is_same_cluster(cluster_id):
            return
        for begin in range(0, len(suspects), STRAYS_AT_ONCE_MAX):
            some = suspects[begin : begin + STRAYS_AT_ONCE_MAX]
            find_reason = partial(self._stray_reason, await Assignments.listed(self._session))
            reasons = await pipelined(find_reason, some, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
            await self._remove({r: why for r, why in zip(some, reasons, strict=True) if why}, life)

    async def _is_same_cluster(self, cluster_id: str) -> bool:
        """False if this is not the ZooKeeper to which these logs belong."""
        try:
            found = znodes.load_cluster_id((await self._session.get(znodes.CLUSTER_ID)).data)
        except (NoNode, znodes.UnreadableZnode):
            found = ""
        if found == cluster_id:
            return True
        logger.error(
            "not the ZooKeeper of these logs: nothing is removed", cluster=found, own_cluster=cluster_id
        )
        return False

    async def _is_newer_than_zookeeper(self, replica: Replica) -> bool:
        """True if ZooKeeper was set back to a time before the last epoch of this log: after a restore from a
        backup it may lack topics whose replicas are here."""
        try:
            found = await read_epoch(self._session)
        except NoNode:
            return True
        last = replica.log.epochs.latest
        lost = found.epochs.lost
        if last <= found.latest and (lost is None or not lost[0] <= last <= lost[1]):
            return False
        logger.error(
            "ZooKeeper was set back: kept, though it is not assigned",
            partition=str(replica.name),
            epoch=found.latest,
            own_epoch=last,
        )
        return True

    async def _stray_reason(self, assignments: Assignments, replica: Replica) -> str:
        """Why it is a stray; empty if it is not, or that is not certain."""
        name, key, me = replica.name, replica.key, self._manager.me
        try:
            if await self._is_newer_than_zookeeper(replica):
                return ""
            topic = await read_topic(self._session, name.topic)
            if topic is None:
                return "the topic is gone"
            if isinstance(topic, ValueError):
                raise topic
            if topic.topic_id != key.topic_id:
                return f"another topic has the name, with id {topic.topic_id}"
            if topic.partitions == 0:  # it is being created
                return ""
            record = (await self._session.get(znodes.isr(*name))).data
            assignment = await assignments.read(name.topic, key)
            named = {*assignment.replicas, *assignment.target}
            if assignment.reassignment is not None:
                named.update(assignment.reassignment.original)
            if me in named:
                return ""
            if me in isr_znodes.load_isr(*name, record):
                logger.error("in sync and not assigned: kept", partition=str(name), assigned=sorted(named))
                return ""
        except (NoNode, ValueError) as error:
            logger.warning("kept, though it is not assigned", partition=str(name), reason=str(error))
            return ""
        return f"it is assigned to {sorted(named)}"

    async def _remove(self, strays: Mapping[Replica, str], life: BrokerEpoch) -> None:
        """Writes the removals to this broker's disk first, because no znode holds them."""
        if not strays:
            return
        at_ms = self._clock.wall_ms()
        self._recorder.record_durably(
            [
                stray_removed(
                    r.name.topic, r.key, self._manager.me, r.leader_epoch, life, at_ms=at_ms, reason=why
                )
                for r, why in strays.items()
            ]
        )

        async def remove(replica: Replica) -> None:
            if replica.state is ReplicaState.DELETED:  # by a request, just now
                return
            logger.warning(
                "removing a stray replica",
                partition=str(replica.name),
                topic_id=replica.key.topic_id,
                reason=strays[replica],
            )
            try:
                await self._executor.remove(replica)
            except OSError as error:
                logger.error("a stray replica stays", partition=str(replica.name), reason=str(error))

        await pipelined(remove, strays, in_flight_max=STRAYS_AT_ONCE_MAX)
