"""Answers how far the replicas of the partitions are that this broker leads."""

from __future__ import annotations

from collections.abc import Callable

from strandline.broker.core.replication.lags import replica_lags
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.vocabulary.log import DescribedReplicas


class ReplicasDescription:
    """Reads what leaderships know; nothing is read from a disk. `find` returns the replica of a partition."""

    def __init__(self, manager: ReplicaManager, find: Callable[[TopicPartition], Replica]) -> None:
        self._manager = manager
        self._find = find

    def of(self, name: TopicPartition) -> DescribedReplicas:
        """The replicas of one partition, or an error with the leader, if it is known."""
        try:
            replica = self._find(name)
        except StrandlineError as error:
            return DescribedReplicas(name, error)
        try:
            leadership = replica.led()
        except StrandlineError as error:
            return DescribedReplicas(name, self._manager.with_hint(error, replica))
        log, core = replica.log, leadership.core
        now = self._manager.clock.monotonic()
        return DescribedReplicas(
            name,
            None,
            replica.leader_epoch,
            replica.high_watermark if core.knows_watermark else -1,
            log.log_start_offset,
            log.log_end_offset,
            log.size_bytes,
            core.min_insync,
            replica_lags(
                core,
                log.log_end_offset,
                log.bytes_near,
                now,
                leadership.copies,
                self._manager.settings.reassignment_near_bytes,
            ),
            replica.key.topic_id,
        )
