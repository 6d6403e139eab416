"""A member of a group whose coordinator assigns: one life as one process."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Final, Literal

from strandline.auditing.recording import Recorder
from strandline.consumer.consumer import Consumer
from strandline.errors import StrandlineError
from strandline.host import Host
from strandline.ids import OFFSETS_TOPIC, TopicPartition
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline_lab.auditing.commits import Committed
from strandline_lab.simulation.kafka.assigned import AssignedKafkaConsumer, Wish
from strandline_lab.simulation.member_records import (
    LOST,
    REVOKED,
    MemberRecord,
    TappedTransport,
)
from strandline_lab.simulation.stage import CoordinatorStep, Stage
from strandline_lab.simulation.workloads.assigned.timing import REBALANCE_MS
from strandline_lab.simulation.workloads.reading.life import (
    AUTO_COMMIT_INTERVAL_MS,
    WORK_S,
    WorkerPlan,
    WorkingLife,
    kafka_client,
)

Subscribes = Literal["steady", "all", "pattern"]
Assignor = Literal["uniform", "range"]

REVOKED_S_MAX: Final = 2.0
"""How long it tries to commit what it gives up."""


class AssignedMember(WorkerPlan, frozen=True):
    """A member, in each of its lives."""

    subscribes: Subscribes
    """To the one topic that stays, to all of the group by their names, or to a pattern of these."""
    assignor: Assignor | None
    """That it asks for; None: none."""
    first: bool = False
    """A Kafka client speaks version 0 of ConsumerGroupHeartbeat: it gets its id, and knows no patterns."""

    @staticmethod
    def drawn(random: Random, static: float) -> AssignedMember:
        return AssignedMember(
            subscribes=random.choice(("steady", "all", "all", "pattern")),
            assignor=random.choice((None, "uniform", "range")),
            by_hand=random.random() < 2 / 3,
            static=random.random() < static,
            work_s=random.choice(WORK_S),
        ).or_kafka(random)

    def or_kafka(self, random: Random) -> AssignedMember:
        """The same, or as a Kafka client."""
        if random.random() < 1 / 2:
            return self
        first = self.subscribes != "pattern" and random.random() < 1 / 2
        return self.model_copy(update={"kafka": True, "by_hand": True, "first": first})


@dataclass(frozen=True, slots=True)
class Among:
    """What the members of a group have in common."""

    group: str
    steady: str
    """The topic that stays; the names of all others begin with it."""
    others: tuple[str, ...]
    stage: Stage
    wrong: list[str]
    """Gets a sentence for each thing that must not be."""

    def topics(self, subscribes: Subscribes) -> tuple[str, ...]:
        return (self.steady,) if subscribes == "steady" else (self.steady, *self.others)

    def pattern(self) -> str:
        return re.escape(self.steady) + ".*"


class AssignedLife(WorkingLife):
    """The life of a member as one process."""

    def __init__(
        self, plan: AssignedMember, name: str, process: SimulatedProcess, recorder: Recorder, among: Among
    ) -> None:
        stage = among.stage
        super().__init__(plan, name, process, recorder, stage, among.wrong, poll_ms_max=REBALANCE_MS)
        self._plan = plan
        self._among = among
        step = partial(CoordinatorStep, among.group, "heartbeat", topic=OFFSETS_TOPIC)
        self.record = MemberRecord(
            process.name, lambda: stage.now_s, lambda decisive: stage.step(step(decisive=decisive))
        )
        self._commits = 0

    def wants(self, topic: str) -> bool:
        """Whether it subscribes to this topic of the group."""
        return topic == self._among.steady or self._plan.subscribes != "steady"

    async def run(self, host: Host) -> None:
        """Raises StrandlineError if it cannot go on."""
        among, subscribes = self._among, self._plan.subscribes
        consumer = self._new_kafka_consumer() if self._plan.kafka else self._new_consumer(host)
        self._consumer = consumer
        async with consumer:
            if isinstance(consumer, AssignedKafkaConsumer):
                consumer.subscribe([among.steady], self)
            elif subscribes == "pattern":
                consumer.subscribe(pattern=among.pattern(), listener=self)
            else:
                consumer.subscribe(among.topics(subscribes), listener=self)
            await self._work_on(host)

    def _new_kafka_consumer(self) -> AssignedKafkaConsumer:
        plan, among = self._plan, self._among
        pattern = among.pattern() if plan.subscribes == "pattern" else None
        return AssignedKafkaConsumer(
            kafka_client(self.process, among.steady, among.stage, among.wrong),
            among.group,
            Wish(among.topics(plan.subscribes), pattern, plan.assignor, 0 if plan.first else 1),
            self.record,
            instance=self.name if plan.static else None,
            rebalance_timeout_ms=REBALANCE_MS,
        )

    def _new_consumer(self, host: Host) -> Consumer:
        plan, record = self._plan, self.record
        tapped = replace(host, transport=lambda key: TappedTransport(host.transport(key), record))
        return Consumer(
            self._stage.cluster.bootstrap,
            host=tapped,
            group_id=self._among.group,
            group_protocol="consumer",
            group_remote_assignor=plan.assignor,
            group_instance_id=self.name if plan.static else None,
            client_id=self.name,
            offset_reset="earliest",
            max_poll_interval_ms=REBALANCE_MS,
            enable_auto_commit=not plan.by_hand,
            auto_commit_interval_ms=AUTO_COMMIT_INTERVAL_MS,
        )

    def _judges(self, topic: str) -> bool:
        return topic == self._among.steady

    async def _commit(self) -> None:
        """Each commit has metadata of its own."""
        self._commits += 1
        note = f"{self.process.name} commit {self._commits}"
        offsets = {
            place: offset for place, offset in self._next.items() if offset >= 0 and self._judges(place.topic)
        }
        try:
            if isinstance(self._consumer, Consumer):
                await self._consumer.commit({place: (offset, note) for place, offset in offsets.items()})
            else:
                await self._consumer.commit(note)
        except StrandlineError:
            return
        at_ms = int(self._stage.now_s * 1000)
        self.acknowledged += [
            Committed(at_ms, self._among.group, *place, offset) for place, offset in offsets.items()
        ]

    # --- what it owns ------------------------------------------------------------------------

    def on_assigned(self, added: set[TopicPartition]) -> None:
        self._next |= dict.fromkeys(sorted(added), -1)  # it commits them in this order
        self.record.takes(added, self._consumer.group_metadata().member_id)
        self._recorder.assigned(*self._of_steady(added))

    async def on_revoked(self, removed: set[TopicPartition]) -> None:
        try:
            if self._by_hand:
                with suppress(TimeoutError):
                    async with asyncio.timeout(REVOKED_S_MAX):
                        await self._commit()
        finally:
            self._gives_up(removed, REVOKED)

    def on_lost(self, lost: set[TopicPartition]) -> None:
        self._gives_up(lost, LOST)

    def _gives_up(self, places: set[TopicPartition], how: str) -> None:
        for place in places:
            self._next.pop(place, None)
        self.record.gives_up(places, how)
        self._recorder.unassigned(*self._of_steady(places), in_order=how == REVOKED)

    def _of_steady(self, places: set[TopicPartition]) -> tuple[int, ...]:
        return tuple(sorted(place.partition for place in places if self._judges(place.topic)))
