"""An operator creates, grows, changes and deletes topics, moves replicas and leaders, drains, balances and
replaces brokers.

What is answered with success is so. What fails with an unknown outcome is so or not. Any other failure
changes nothing. Moves concern the topics of all workloads: at the end each partition has as many replicas as
it was given, on brokers that differ, and no balance is under way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Final, Literal

from strandline.client.admin.admin import Admin
from strandline.client.admin.topics import TopicDescription
from strandline.errors import Outcome, StrandlineError
from strandline.host import Host
from strandline.ids import INTERNAL_PREFIX, BrokerId, TopicPartition
from strandline.vocabulary.metadata import BalanceState
from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads.operator import AGAIN_S, Operation, Operator
from strandline_lab.simulation.workloads.workload import (
    BROKERS_MIN,
    Count,
    Pause,
    Workload,
    WorkloadPlan,
    joined,
)

REPLICAS: Final = 3
PARTITIONS_MAX: Final = 6
SEGMENT_BYTES: Final = ("1024", "65536", "1048576")
SETTING: Final = "segment.bytes"
REPLICAS_MOVED: Final = (2, 3, 3)
"""How many replicas a partition gets by hand: one of these."""
THROTTLES: Final = (0, 0, 20_000)
"""Of a balance, in bytes per second."""
BALANCES_PAUSE_S: Final = 0.5
"""Between two operations on balances and brokers that leave, on average."""
DELETED_S_MAX: Final = 20.0
"""After the faults: until every deletion that was begun is complete."""

Condition = tuple[int, str]
"""The partitions of a topic, and its `segment.bytes`; ABSENT if there is no such topic."""
ABSENT: Final[Condition] = (0, "")


class Operations(WorkloadPlan, frozen=True):
    """An operation every `pause_s` seconds on average, on `topics` topics of its own, or on all."""

    kind: Literal["operations"] = "operations"
    topics: Count
    """Its own, which it creates, grows, alters and deletes."""
    pause_s: Pause
    """Between two operations, on average."""
    moves: bool
    """Replicas and leaders move too, and brokers are drained."""
    balances: bool = False
    """Brokers are balanced, and some are drained, stopped and forgotten: with a broker more than replicas."""

    @staticmethod
    def drawn(random: Random, name: str) -> Operations:
        return Operations(
            name=name,
            topics=random.randint(1, 3),
            pause_s=random.choice((0.2, 1.0, 3.0)),
            moves=random.random() < 2 / 3,
        )

    def balancing(self) -> Operations:
        return self.model_copy(update={"balances": True})

    @property
    def survives_power_loss(self) -> bool:
        return True  # it writes no records

    @property
    def brokers_min(self) -> int:
        return BROKERS_MIN + self.balances

    def workload(self, stage: Stage) -> Workload:
        return _Operator(self, stage)


class _Operator(Operator):
    def __init__(self, plan: Operations, stage: Stage) -> None:
        super().__init__(plan.name, plan.pause_s, stage)
        self._plan = plan
        self._lots = stage.random(f"{plan.name} balances")
        self._possible: dict[str, set[Condition]] = {
            f"{plan.name}-{number}": {ABSENT} for number in range(plan.topics)
        }
        """What may have become of each topic."""
        self._drained: set[int] = set()
        self._leaving: int | None = None
        """A broker that is drained of its replicas, and forgotten after that."""
        self._gone: int | None = None
        """A broker that was forgotten."""
        self._found: dict[str, Condition] = {}
        if plan.balances:
            self._done |= {"moves of balances": 0, "brokers forgotten": 0}

    async def run(self) -> None:
        host = self._client.host
        balancing = self._client.run(self._balance_brokers(host)) if self._plan.balances else None
        await joined(self._client.run(self._operate(host)))
        if balancing is not None:
            await joined(balancing)
        self._over.set()

    async def _deletions_end(self, host: Host) -> None:
        ends_s = self._stage.now_s + DELETED_S_MAX
        while unfinished := self._stage.topics_being_deleted():
            if self._stage.now_s > ends_s:
                self._wrong.append(f"deletions were begun and are not complete: {unfinished}")
                return
            await host.clock.sleep(AGAIN_S)

    def problems(self) -> list[Problem]:
        found = [
            f"{topic} is {self._found[topic]} (partitions, {SETTING}), and by the answers {sorted(possible)}"
            for topic, possible in self._possible.items()
            if self._found[topic] not in possible
        ]
        return [Problem(self._plan.kind, line) for line in (*found, *self._wrong)]

    def counts(self) -> dict[str, int]:
        return {f"operations {name}": count for name, count in self._done.items()}

    # --- operations --------------------------------------------------------------------------

    def _kinds(self) -> Sequence[Operation]:
        kinds = [self._create, self._create, self._grow, self._change, self._delete]
        return [*kinds, self._move, self._move, self._prefer, self._drain] if self._plan.moves else kinds

    async def _alter(
        self, topic: str, becomes: Callable[[Condition], Condition], request: Awaitable[object]
    ) -> None:
        """Do the request, which has this effect on the topic. `becomes` is called for what may be so now."""
        before = self._possible[topic]
        after = {becomes(each) for each in before}
        self._possible[topic] = before | after
        try:
            await request
        except StrandlineError as error:
            if error.outcome is not Outcome.UNKNOWN:
                self._possible[topic] = before
            raise
        self._possible[topic] = after

    def _topic(self) -> str:
        return self._random.choice(list(self._possible))

    async def _create(self, admin: Admin) -> None:
        topic, partitions = self._topic(), self._random.randint(1, PARTITIONS_MAX)
        size, wait = self._random.choice(SEGMENT_BYTES), self._random.random() < 1 / 2
        request = admin.create_topic(topic, partitions, REPLICAS, {SETTING: size}, wait=wait)
        await self._alter(topic, lambda before: (partitions, size), request)

    async def _delete(self, admin: Admin) -> None:
        topic = self._topic()
        await self._alter(topic, lambda before: ABSENT, admin.delete_topics([topic]))

    async def _grow(self, admin: Admin) -> None:
        topic, partitions = self._topic(), self._random.randint(1, PARTITIONS_MAX)
        await self._alter(
            topic,
            lambda before: before if before == ABSENT else (partitions, before[1]),
            admin.alter_topic(topic, partitions=partitions),
        )

    async def _change(self, admin: Admin) -> None:
        topic, size = self._topic(), self._random.choice(SEGMENT_BYTES)
        await self._alter(
            topic,
            lambda before: before if before == ABSENT else (before[0], size),
            admin.alter_topic(topic, set={SETTING: size}),
        )

    # --- moves -------------------------------------------------------------------------------

    async def _move(self, admin: Admin) -> None:
        topics = [
            topic for topic in await admin.describe_topics() if not topic.name.startswith(INTERNAL_PREFIX)
        ]
        if not topics:
            return
        topic = self._random.choice(topics)
        name = TopicPartition(topic.name, self._random.randrange(len(topic.partitions)))
        brokers = range(len(self._stage.cluster.brokers))
        replicas = [
            BrokerId(each) for each in self._random.sample(brokers, self._random.choice(REPLICAS_MOVED))
        ]
        await admin.reassign({name: replicas})

    async def _drain(self, admin: Admin) -> None:
        """Drain a broker, or undo all drains."""
        if self._drained:
            await self._undrain(admin)
            return
        broker = self._random.randrange(len(self._stage.cluster.brokers))
        self._drained.add(broker)
        await admin.drain_broker(broker)

    async def _undrain(self, admin: Admin) -> None:
        for broker in sorted(self._drained):
            await admin.undrain_broker(broker)
            self._drained.discard(broker)

    # --- balances, with lots of their own ----------------------------------------------------

    async def _balance_brokers(self, host: Host) -> None:
        while not self._stage.faults_ended.is_set():
            await host.clock.sleep(self._lots.expovariate(1 / BALANCES_PAUSE_S))
            kinds = [
                self._balance,
                self._balance,
                self._alter_balance,
                self._leave,
                self._leave,
                self._forget,
            ]
            await self._do(host, self._lots.choice(kinds))

    async def _balance(self, admin: Admin) -> None:
        plan = await admin.start_balance(throttle_bytes_per_s=self._lots.choice(THROTTLES))
        self._done["moves of balances"] += len(plan.moves)

    async def _alter_balance(self, admin: Admin) -> None:
        actions = (admin.pause_balance, admin.resume_balance, admin.resume_balance, admin.cancel_balance)
        revert = self._lots.random() < 1 / 4
        _ = await (admin.cancel_balance(revert=True) if revert else self._lots.choice(actions)())

    async def _leave(self, admin: Admin) -> None:
        """A step of the way of a broker out of the cluster and back, as a new one."""
        cluster = self._stage.cluster
        if self._gone is not None:
            if cluster.is_startable(self._gone):
                cluster.start_broker(self._gone)
            self._gone = None
            return
        if self._leaving is None:
            self._leaving = self._lots.randrange(len(cluster.brokers))
        left = await admin.drain_broker(self._leaving, replicas=True)
        if left.replicas == 0 and not self._stage.faults_ended.is_set():  # after them it stays stopped
            cluster.brokers[self._leaving].kill()
            forgotten = await admin.forget_broker(self._leaving)  # refused until its session has ended
            self._done["brokers forgotten"] += forgotten.was_known
            self._leaving, self._gone = None, self._leaving

    async def _forget(self, admin: Admin) -> None:
        """Refused, unless the broker has left."""
        forgotten = await admin.forget_broker(self._lots.randrange(len(self._stage.cluster.brokers)))
        self._done["brokers forgotten"] += forgotten.was_known

    # --- the end -----------------------------------------------------------------------------

    async def _end_moves(self, host: Host) -> None:
        """Undo the drains, have a balance go on, and wait for the moves that are under way."""
        ended = False
        while not ended:
            try:
                async with self._admin(host) as admin:
                    if self._leaving is not None:
                        await admin.undrain_broker(self._leaving)
                        self._leaving = None
                    await self._undrain(admin)
                    ended = await self._is_balanced(admin) and not await admin.list_reassignments()
            except StrandlineError:
                ended = False
            if not ended:
                await host.clock.sleep(AGAIN_S)

    async def _is_balanced(self, admin: Admin) -> bool:
        if not self._plan.balances:
            return True
        state = (await admin.describe_balance()).state
        if state is BalanceState.PAUSED:
            await admin.resume_balance()
        return not state.is_under_way

    async def _look(self, host: Host) -> None:
        await self._deletions_end(host)
        async with self._admin(host) as admin:
            described = {topic.name: topic for topic in await admin.describe_topics()}
            if not await self._is_balanced(admin):
                self._wrong.append("a balance is under way, and nobody has begun one")
        writes = self._stage.isr_history.writes
        created = {write.name: len(write.after.isr) for write in writes if write.before is None}
        self._wrong += misplaced(list(described.values()), created, moves=self._plan.moves)
        for name in self._possible:
            self._found[name] = _condition(described[name]) if name in described else ABSENT


def _condition(topic: TopicDescription) -> Condition:
    return len(topic.partitions), topic.config[SETTING]


def misplaced(
    topics: Sequence[TopicDescription], created: Mapping[TopicPartition, int], *, moves: bool
) -> Iterator[str]:
    """Partitions whose replicas share a broker, or are more or fewer than they were given. `created`: the
    replicas that were in sync at first. An internal topic may have no others: fewer brokers were alive.
    """
    for topic in topics:
        internal = topic.name.startswith(INTERNAL_PREFIX)
        for each in topic.partitions:
            given: Sequence[int] = REPLICAS_MOVED if moves else (REPLICAS,)
            if internal:
                given = range(created[TopicPartition(topic.name, each.partition)], REPLICAS + 1)
            count = len(set(each.replicas))
            if count < len(each.replicas) or count not in given:
                yield f"{topic.name}-{each.partition} has the replicas {list(each.replicas)}"
