"""One life of a member of a group: it works on records, commits, and notes what it owned."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Final, Literal

from pydantic import BaseModel

from strandline.auditing.recording import Recorder
from strandline.client.reading.records import ConsumerRecord
from strandline.consumer.consumer import Consumer
from strandline.consumer.group.listener import RebalanceListener
from strandline.errors import InconsistentGroupProtocol, StrandlineError
from strandline.host import Host
from strandline.ids import TopicPartition
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline_lab.auditing.commits import Committed
from strandline_lab.auditing.member_ownership import ASSIGNED, LOST, REVOKED, Change
from strandline_lab.simulation.kafka.client import KafkaClient
from strandline_lab.simulation.kafka.consumer import KafkaConsumer
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads.workload import Pause

SESSION_TIMEOUT_MS: Final = 4_000
MAX_POLL_INTERVAL_MS: Final = 5_000
AUTO_COMMIT_INTERVAL_MS: Final = 1_000
GET_MS_MAX: Final = 500
RECORDS_MAX: Final = 4
"""Records of one get call."""
COMMIT_EVERY: Final = 5
"""Get calls between two commits by hand."""
WORK_S: Final = (0.01, 0.1)
"""The work on one record, on average: a slow member nearly always has records in hand."""
SLOW_RATE: Final = 0.002
"""The part of all records with work that takes longer than the group waits for a member."""


class MemberPlan(BaseModel, frozen=True, extra="forbid"):
    """A member, in each of its lives."""

    protocol: Literal["eager", "cooperative"]
    """Its protocol in its first life."""
    becomes: Literal["eager", "cooperative"]
    """Its protocol from its second life on: KIP-429 upgrades a group by restarts."""
    by_hand: bool
    """It commits its offsets itself."""
    static: bool
    """It returns under the name that it had (KIP-345)."""
    work_s: Pause
    """Its work on one record, on average."""
    kafka: bool = False
    """It is a Kafka client: it speaks to the brokers' Kafka ports, and commits its offsets itself."""

    @staticmethod
    def drawn(
        random: Random, protocol: Literal["eager", "cooperative", "mixed"], static: float
    ) -> MemberPlan:
        """`mixed`: the member begins with a protocol of its own, and later cooperates."""
        first = random.choice(("eager", "cooperative")) if protocol == "mixed" else protocol
        return MemberPlan(
            protocol=first,
            becomes="cooperative" if protocol == "mixed" else protocol,
            by_hand=random.random() < 1 / 2,
            static=random.random() < static,
            work_s=random.choice(WORK_S),
        )


@dataclass(frozen=True, slots=True)
class Membership:
    """What the members of a group have in common."""

    group: str
    topic: str
    partitions: int
    assignor: str
    stage: Stage
    wrong: list[str]
    """Gets a sentence for each thing that no broker may do."""


def consumer_of(
    plan: MemberPlan, name: str, process: SimulatedProcess, protocol: str, among: Membership
) -> Consumer | KafkaConsumer:
    """The consumer of one life of a member. A Kafka client's protocol follows from its assignor."""
    cluster, instance = among.stage.cluster, name if plan.static else None
    if not plan.kafka:
        return Consumer(
            cluster.bootstrap,
            host=process.host,
            group_id=among.group,
            group_instance_id=instance,
            client_id=name,
            assignors=(among.assignor,),
            rebalance_protocol=protocol,
            offset_reset="earliest",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=SESSION_TIMEOUT_MS // 4,
            max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
            enable_auto_commit=not plan.by_hand,
            auto_commit_interval_ms=AUTO_COMMIT_INTERVAL_MS,
        )
    random = among.stage.random(f"{process.name} client")
    return KafkaConsumer(
        KafkaClient(
            process, cluster.kafka_bootstrap, among.topic, random, among.wrong,
            flexible=random.random() < 1 / 2,
        ),
        among.group,
        among.partitions,
        instance=instance,
        assignor=among.assignor,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=MAX_POLL_INTERVAL_MS,
    )  # fmt: skip


class MemberLife(RebalanceListener):
    """The life of a member as one process."""

    def __init__(
        self,
        plan: MemberPlan,
        name: str,
        process: SimulatedProcess,
        recorder: Recorder,
        stage: Stage,
        wrong: list[str],
    ) -> None:
        """`wrong` gets a sentence for each record that its consumer should not have handed out."""
        self._plan = plan
        self.name = name
        """The client's: all of its lives have it."""
        self._stage = stage
        self._recorder = recorder
        self._wrong = wrong
        self._random = stage.random(process.name)
        self.process = process
        self.leave = asyncio.Event()
        """Set to have the member leave in order."""
        self.changes: list[Change] = []
        self.acknowledged: list[Committed] = []
        """Its commits by hand that were acknowledged."""
        self._next: dict[TopicPartition, int] = {}
        """Of its partitions: the offset after the last record that it has finished with."""

    async def run(self, consumer: Consumer | KafkaConsumer, host: Host, topic: str) -> None:
        """Raises StrandlineError if it cannot go on."""
        self._consumer = consumer
        try:
            async with consumer:
                consumer.subscribe([topic], listener=self)
                await self._work_on(host)
        except InconsistentGroupProtocol as error:
            # All members can read each other's protocols: what it owned was given to another one.
            self._wrong.append(f"{self.process.name}: {error.message}")
            raise

    async def _work_on(self, host: Host) -> None:
        calls = 0
        while not self.leave.is_set():
            await self._work(host, await self._get())
            calls += 1
            if self._plan.by_hand and calls % COMMIT_EVERY == 0:
                await self._commit()
        if self._plan.by_hand:
            await self._commit()

    async def _get(self) -> list[ConsumerRecord]:
        """In one of the two ways in which applications read."""
        consumer = self._consumer
        try:
            if self._plan.by_hand and isinstance(consumer, Consumer):
                async with asyncio.timeout(GET_MS_MAX / 1000):
                    return [await consumer.getone()]
            found = await consumer.getmany(timeout_ms=GET_MS_MAX, max_records=RECORDS_MAX)
            return [record for records in found.values() for record in records]
        except TimeoutError:
            return []
        except StrandlineError as error:
            if not error.retriable or consumer.error() is not None:
                raise
            return []

    async def _work(self, host: Host, records: list[ConsumerRecord]) -> None:
        """All records of a get call count as handled together."""
        for record in records:
            self._recorder.received(record.partition, [record])
            if TopicPartition(record.topic, record.partition) not in self._next:
                self._wrong.append(
                    f"{self.process.name} got record {record.offset} of {record.topic}-{record.partition}, "
                    "which it does not own"
                )
        for _ in records:
            slow = self._random.random() < SLOW_RATE and not self._hurries
            await host.clock.sleep(
                MAX_POLL_INTERVAL_MS / 1000 * 1.5 if slow else self._random.expovariate(1 / self._work_s)
            )
        for record in records:
            self._recorder.handled(record.partition, record.offset)
            place = TopicPartition(record.topic, record.partition)
            if place in self._next:
                self._next[place] = record.offset + 1

    @property
    def _work_s(self) -> float:
        return WORK_S[0] if self._hurries else self._plan.work_s

    @property
    def _hurries(self) -> bool:
        """After the faults: what has piled up has to be done before the run ends."""
        return self._stage.faults_ended.is_set()

    async def _commit(self) -> None:
        """Offsets that cannot be committed now go with the next commit, or to the next owner."""
        offsets = {place: offset for place, offset in self._next.items() if offset >= 0}
        try:
            await self._consumer.commit()
        except StrandlineError:
            return
        at_ms, group = self._now_ms, self._consumer.group_metadata().group_id
        self.acknowledged += [Committed(at_ms, group, *place, offset) for place, offset in offsets.items()]

    # --- what it owns ------------------------------------------------------------------------

    def on_assigned(self, added: set[TopicPartition]) -> None:
        self._next |= dict.fromkeys(added, -1)
        self._recorder.assigned(*self._changed(ASSIGNED, added))

    async def on_revoked(self, removed: set[TopicPartition]) -> None:
        try:
            if self._plan.by_hand:
                await self._commit()
        finally:
            self._recorder.unassigned(*self._changed(REVOKED, removed), in_order=True)

    def on_lost(self, lost: set[TopicPartition]) -> None:
        self._recorder.unassigned(*self._changed(LOST, lost), in_order=False)

    @property
    def static(self) -> bool:
        """True if it has a name that its next life has, too."""
        return self._plan.static

    @property
    def owned(self) -> set[TopicPartition]:
        """The partitions that it has now."""
        return set(self._next)

    def _changed(self, event: str, places: set[TopicPartition]) -> tuple[int, ...]:
        partitions = tuple(sorted(place.partition for place in places))
        if event != ASSIGNED:
            for place in places:
                self._next.pop(place, None)
        member = self._consumer.group_metadata()
        for topic in sorted({place.topic for place in places}):
            change = Change(event, self._now_ms, member.member_id, member.generation, topic, partitions)
            self.changes.append(change)
        return partitions

    @property
    def _now_ms(self) -> int:
        return int(self._stage.now_s * 1000)
