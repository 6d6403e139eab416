"""Answers what this broker's replicas can: DeleteRecords, DescribeLogDirs and DescribeProducers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from strandline.broker.core.replication.producer_state import ProducerState
from strandline.broker.kafka.answers import AnswerSize
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import KafkaCode, code_of
from strandline.broker.kafka.wire.admin.replicas import (
    ActiveProducer,
    DeletedPartition,
    DeleteRecordsAnswer,
    DeleteRecordsRequest,
    DescribeLogDirsAnswer,
    DescribeLogDirsRequest,
    DescribeProducersAnswer,
    DescribeProducersRequest,
    LogDirectory,
    PartitionProducers,
    PartitionSize,
)
from strandline.broker.kafka.wire.topics import by_topic, each_partition, names_of
from strandline.broker.log.handlers import Handlers
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.errors import InvalidRequest, StrandlineError
from strandline.ids import TopicPartition
from strandline.security.rights import DESCRIBE_CLUSTER, READ_TOPIC
from strandline.tasks import Slices, pipelined
from strandline.vocabulary.topics import check_topic_name

DELETIONS_IN_FLIGHT_MAX: Final = 100
"""Partitions of one request whose in-sync replicas are asked at the same time."""
UNKNOWN_SPACE: Final = (-1, -1)


class ReplicasApi:
    """These APIs, for all connections of one broker."""

    def __init__(self, log: Handlers, manager: ReplicaManager) -> None:
        self._log = log
        self._access = log.access
        self._manager = manager
        self._clock = manager.clock

    async def delete_records(self, request: DeleteRecordsRequest, call: Call) -> DeleteRecordsAnswer:
        """Answered once the in-sync replicas of each partition have deleted the records. The time is that of
        the whole request."""
        timeout_ms = min(request.timeout_ms, self._manager.settings.produce_timeout_ms_max)
        ends = self._clock.monotonic() + timeout_ms / 1000

        async def delete(asked: tuple[str, int, int]) -> tuple[str, DeletedPartition]:
            topic, partition, offset = asked
            left_ms = int((ends - self._clock.monotonic()) * 1000)
            name = TopicPartition(topic, partition)
            found = await self._log.delete_records(name, offset, call.caller, timeout_ms=left_ms)
            # What the log refuses is its topic's policy: it is compacted, and not deleted.
            refused = isinstance(found.error, InvalidRequest)
            code = int(KafkaCode.POLICY_VIOLATION) if refused else code_of(found.error)
            return topic, DeletedPartition(partition, code, found.log_start_offset)

        wanted = [(topic, asked.partition, asked.offset) for topic, asked in each_partition(request.topics)]
        deleted = await pipelined(delete, wanted, in_flight_max=DELETIONS_IN_FLIGHT_MAX)
        return DeleteRecordsAnswer(by_topic(deleted))

    async def log_dirs(self, request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsAnswer:
        """The sizes of the replicas that are here; partitions without one are left out, as by Kafka."""
        if (refusal := self._access.refusal(call.caller, DESCRIBE_CLUSTER)) is not None:
            return DescribeLogDirsAnswer((), code_of(refusal))
        wanted = None
        if request.topics is not None:
            wanted = set(names_of(request.topics))
        slices, found = Slices(self._clock), dict[TopicPartition, PartitionSize]()
        for replica in self._manager:
            if slices.used_up:
                await slices.next()
            if wanted is None or replica.name in wanted:
                found[replica.name] = _size(replica)
        sizes = ((name.topic, found[name]) for name in sorted(found))
        path = self._manager.folder.path
        try:
            space = await self._manager.host.threads.run(self._manager.folder.files.space, path)
        except OSError:
            space = UNKNOWN_SPACE
        return DescribeLogDirsAnswer((LogDirectory(str(path), by_topic(sizes), *space),))

    async def producers(
        self, request: DescribeProducersRequest, call: Call, size: AnswerSize
    ) -> DescribeProducersAnswer:
        """The producers that a replica here remembers, be it the leader or a follower. A partition is
        described once, however often it is named."""
        found = list[tuple[str, PartitionProducers]]()
        for name in dict.fromkeys(names_of(request.topics)):
            described = self._producers(name, call, full=size.full)
            await size.add(name.topic, described.message or "", entries=1 + len(described.producers))
            found.append((name.topic, described))
        return DescribeProducersAnswer(by_topic(found))

    def _producers(self, name: TopicPartition, call: Call, *, full: bool) -> PartitionProducers:
        partition = name.partition
        try:
            if full:
                raise InvalidRequest("the answer is full: ask for fewer partitions at a time")
            self._access.check(call.caller, READ_TOPIC, name.topic)
            check_topic_name(name.topic)
            replica = self._log.replica(name)
        except StrandlineError as error:
            return PartitionProducers(partition, code_of(error), error.message)
        return PartitionProducers(partition, producers=tuple(_active(replica.log.producers)))


def _active(producers: ProducerState) -> Iterator[ActiveProducer]:
    """Producers, then those that are forgotten but for their open transactions."""
    opened = dict(producers.transactions)
    for number, known in producers:
        last = known.batches[-1].last_sequence if known.batches else -1
        its = opened.pop(number, None)
        offset = -1 if its is None else its.first_offset
        yield ActiveProducer(number, known.epoch, last, known.at_ms, known.coordinator_epoch, offset)
    for number, each in opened.items():
        offset = each.first_offset
        yield ActiveProducer(number, each.epoch, last_at_ms=each.began_ms, transaction_offset=offset)


def _size(replica: Replica) -> PartitionSize:
    """The lag is up to the high watermark, which the leader of a replica that is being copied has told."""
    return PartitionSize(replica.name.partition, replica.log.size_bytes, replica.committed_lag)
