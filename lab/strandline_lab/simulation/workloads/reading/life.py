"""A member's work in one life: it reads, works on records and commits until it is to leave."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from random import Random
from typing import Final

from pydantic import BaseModel

from strandline.auditing.recording import Recorder
from strandline.client.reading.records import ConsumerRecord
from strandline.consumer.consumer import Consumer
from strandline.consumer.group.listener import RebalanceListener
from strandline.errors import StrandlineError
from strandline.host import Host
from strandline.ids import TopicPartition
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline_lab.auditing.commits import Committed
from strandline_lab.simulation.kafka.client import KafkaClient
from strandline_lab.simulation.kafka.consumer import KafkaConsumer
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads.workload import Pause

GET_MS_MAX: Final = 500
RECORDS_MAX: Final = 4
"""Records of one get call."""
COMMIT_EVERY: Final = 5
"""Get calls between two commits by hand."""
AUTO_COMMIT_INTERVAL_MS: Final = 1_000
WORK_S: Final = (0.01, 0.1)
"""The work on one record, on average: a slow member nearly always has records in hand."""
SLOW_RATE: Final = 0.002
"""The part of all records with work that takes longer than the group waits for a member."""


class WorkerPlan(BaseModel, frozen=True, extra="forbid"):
    """A member, in each of its lives."""

    by_hand: bool
    """It commits its offsets itself."""
    static: bool
    """It returns under the name that it had (KIP-345)."""
    work_s: Pause
    """Its work on one record, on average."""
    kafka: bool = False
    """It is a Kafka client: it speaks to the brokers' Kafka ports, and commits its offsets itself."""


def kafka_client(process: SimulatedProcess, topic: str, stage: Stage, wrong: list[str]) -> KafkaClient:
    """The connections of one life of a Kafka client. `wrong` gets a sentence for each thing that no broker
    may do."""
    random = stage.random(f"{process.name} client")
    flexible = random.random() < 1 / 2
    return KafkaClient(process, stage.cluster.kafka_bootstrap, topic, random, wrong, flexible=flexible)


class WorkingLife(RebalanceListener):
    """The life of a member as one process. Subclasses join, and note what it owns."""

    _consumer: Consumer | KafkaConsumer

    def __init__(
        self,
        plan: WorkerPlan,
        name: str,
        process: SimulatedProcess,
        recorder: Recorder,
        stage: Stage,
        wrong: list[str],
        *,
        poll_ms_max: int,
    ) -> None:
        """`wrong` gets a sentence for each record that its consumer should not have handed out. The group
        waits `poll_ms_max` for its next get call."""
        self._by_hand = plan.by_hand
        self.static = plan.static
        """True if it has a name that its next life has, too."""
        self._usual_work_s = plan.work_s
        self.name = name
        """The client's: all of its lives have it."""
        self._stage = stage
        self._recorder = recorder
        self._wrong = wrong
        self._poll_ms_max = poll_ms_max
        self._random: Random = stage.random(process.name)
        self.process = process
        self.leave = asyncio.Event()
        """Set to have the member leave in order."""
        self.acknowledged: list[Committed] = []
        """Its commits by hand that were acknowledged."""
        self._next: dict[TopicPartition, int] = {}
        """Of its partitions: the offset after the last record that it has finished with."""

    @property
    def owned(self) -> set[TopicPartition]:
        """The partitions that it has now."""
        return set(self._next)

    @abstractmethod
    async def _commit(self) -> None:
        """Offsets that cannot be committed now go with the next commit, or to the next owner."""

    def _judges(self, topic: str) -> bool:
        """Whether records of this topic are written down."""
        return True

    async def _work_on(self, host: Host) -> None:
        calls = 0
        while not self.leave.is_set():
            await self._work(host, await self._get())
            calls += 1
            if self._by_hand and calls % COMMIT_EVERY == 0:
                await self._commit()
        if self._by_hand:
            await self._commit()

    async def _get(self) -> list[ConsumerRecord]:
        try:
            return await self._records()
        except StrandlineError as error:
            if not error.retriable or self._consumer.error() is not None:
                raise
            return []

    async def _records(self) -> list[ConsumerRecord]:
        found = await self._consumer.getmany(timeout_ms=GET_MS_MAX, max_records=RECORDS_MAX)
        return [record for records in found.values() for record in records]

    async def _work(self, host: Host, records: list[ConsumerRecord]) -> None:
        """All records of a get call count as handled together."""
        for record in records:
            if self._judges(record.topic):
                self._recorder.received(record.partition, [record])
            if TopicPartition(record.topic, record.partition) not in self._next:
                self._wrong.append(
                    f"{self.process.name} got record {record.offset} of {record.topic}-{record.partition}, "
                    "which it does not own"
                )
        for _ in records:
            slow = self._random.random() < SLOW_RATE and not self._hurries
            await host.clock.sleep(
                self._poll_ms_max / 1000 * 1.5 if slow else self._random.expovariate(1 / self._work_s)
            )
        for record in records:
            if self._judges(record.topic):
                self._recorder.handled(record.partition, record.offset)
            place = TopicPartition(record.topic, record.partition)
            if place in self._next:
                self._next[place] = record.offset + 1

    @property
    def _work_s(self) -> float:
        return WORK_S[0] if self._hurries else self._usual_work_s

    @property
    def _hurries(self) -> bool:
        """After the faults: what has piled up has to be done before the run ends."""
        return self._stage.faults_ended.is_set()
