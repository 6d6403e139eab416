"""One life of a member of a group: it works on records, commits, and notes what it owned."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Final, Literal

from strandline.auditing.recording import Recorder
from strandline.client.reading.records import ConsumerRecord
from strandline.consumer.consumer import Consumer
from strandline.errors import InconsistentGroupProtocol, StrandlineError
from strandline.host import Host
from strandline.ids import TopicPartition
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline_lab.auditing.commits import Committed
from strandline_lab.auditing.member_ownership import ASSIGNED, LOST, REVOKED, Change
from strandline_lab.simulation.kafka.consumer import KafkaConsumer
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads.reading.life import (
    AUTO_COMMIT_INTERVAL_MS,
    GET_MS_MAX,
    WORK_S,
    WorkerPlan,
    WorkingLife,
    kafka_client,
)

SESSION_TIMEOUT_MS: Final = 4_000
MAX_POLL_INTERVAL_MS: Final = 5_000


class MemberPlan(WorkerPlan, frozen=True):
    """A member, in each of its lives."""

    protocol: Literal["eager", "cooperative"]
    """Its protocol in its first life."""
    becomes: Literal["eager", "cooperative"]
    """Its protocol from its second life on: KIP-429 upgrades a group by restarts."""

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
    return KafkaConsumer(
        kafka_client(process, among.topic, among.stage, among.wrong),
        among.group,
        among.partitions,
        instance=instance,
        assignor=among.assignor,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=MAX_POLL_INTERVAL_MS,
    )


class MemberLife(WorkingLife):
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
        super().__init__(plan, name, process, recorder, stage, wrong, poll_ms_max=MAX_POLL_INTERVAL_MS)
        self.changes: list[Change] = []

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

    async def _records(self) -> list[ConsumerRecord]:
        """In one of the two ways in which applications read."""
        consumer = self._consumer
        if not (self._by_hand and isinstance(consumer, Consumer)):
            return await super()._records()
        try:
            async with asyncio.timeout(GET_MS_MAX / 1000):
                return [await consumer.getone()]
        except TimeoutError:
            return []

    async def _commit(self) -> None:
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
            if self._by_hand:
                await self._commit()
        finally:
            self._recorder.unassigned(*self._changed(REVOKED, removed), in_order=True)

    def on_lost(self, lost: set[TopicPartition]) -> None:
        self._recorder.unassigned(*self._changed(LOST, lost), in_order=False)

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
