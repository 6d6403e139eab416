"""Markers reach every partition of a transaction: over elections, lost answers and deleted topics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

import pytest

from strandline.broker.core.transactions.effects import SendMarkers
from strandline.broker.transactions.marker_sender import RETRIES_PER_S, MarkerSender
from strandline.broker.transactions.marker_writes import MarkerWrites
from strandline.broker.transactions.places import Places
from strandline.errors import (
    BrokerNotAvailable,
    ClusterAuthorizationFailed,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OutcomeUnknown,
    StrandlineError,
)
from strandline.ids import BrokerId, TopicPartition
from strandline.security.access import Access
from strandline.security.authorizer import Authorizer
from strandline.simulation.engine.loop import SimulatedLoop
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import Marker, MarkerBatch, MarkerEntry
from tests.broker.support.access import CALLER
from tests.hand_clock import HandClock
from tests.virtual_time import clock_of
from tests.waiting import eventually

ME, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
A, B, C = (TopicPartition("orders", number) for number in range(3))
PRODUCER = ProducerIdentity(4_000, 3)
MEMBERS = Access(Authorizer(None), lambda key: key is None)
"""Each caller shows the members' key."""


@dataclass
class Logs:
    """The logs that a broker leads; fulfils `MarkerWriter`."""

    written: list[MarkerEntry] = field(default_factory=list)
    errors: dict[TopicPartition, StrandlineError] = field(default_factory=dict)
    held: list[Callable[[StrandlineError | None], None]] = field(default_factory=list)
    holding: bool = False

    def write(
        self, entry: MarkerEntry, done: Callable[[StrandlineError | None], None], *, timeout_ms: int
    ) -> None:
        assert timeout_ms > 0
        self.written.append(entry)
        if self.holding:
            self.held.append(done)
        else:
            done(self.errors.get(entry.name))


@dataclass
class Cluster:
    """Brokers 1 to 3, seen from broker 1."""

    leaders: dict[TopicPartition, BrokerId]
    gone: set[TopicPartition] = field(default_factory=set)
    logs: dict[BrokerId, Logs] = field(default_factory=lambda: {b: Logs() for b in (ME, TWO, THREE)})
    lost_answers: int = 0
    """Answers of other brokers that are lost after their markers were written."""
    down: set[BrokerId] = field(default_factory=set)
    on_locate: Callable[[], None] = lambda: None
    calls: int = 0
    """To other brokers."""
    marked: list[set[TopicPartition]] = field(default_factory=list)

    async def locate(self, names: Collection[TopicPartition]) -> Places:
        self.on_locate()
        found = {name: leader for name, leader in self.leaders.items() if name in names}
        return Places(found, self.gone & set(names))

    async def send(
        self, broker: BrokerId, entries: Sequence[MarkerEntry]
    ) -> Sequence[StrandlineError | None]:
        self.calls += 1
        if broker in self.down:
            raise BrokerNotAvailable("down")
        batch = MarkerBatch(ME, entries)
        results = await MarkerWrites(self.logs[broker], MEMBERS, HandClock()).write(batch, CALLER)
        if self.lost_answers:
            self.lost_answers -= 1
            raise OutcomeUnknown("lost")
        return results

    async def deliver(self, *names: TopicPartition, commit: bool = True, epoch: int = 9) -> None:
        async with self.sending() as sender:
            await sender.deliver(
                SendMarkers("payments", PRODUCER, commit, frozenset(names)),
                epoch,
                lambda done: self.marked.append(set(done)),
            )

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[MarkerSender]:
        writes = MarkerWrites(self.logs[ME], MEMBERS, HandClock())
        sender = MarkerSender(ME, self.locate, writes, self.send, HandClock())
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(sender.run())
            yield sender
            running.cancel()


async def test_each_leader_gets_the_markers_of_its_partitions() -> None:
    """Also this broker itself. The coordinator's epoch goes along: it fences (KIP-98)."""
    cluster = Cluster({A: ME, B: TWO, C: THREE})
    await cluster.deliver(A, B, C, commit=False)
    for broker, name in ((ME, A), (TWO, B), (THREE, C)):
        marker = Marker(PRODUCER, commit=False, coordinator_epoch=9)
        assert cluster.logs[broker].written == [MarkerEntry(name, marker)]
    assert cluster.marked == [{A, B, C}]


async def test_what_is_confirmed_counts_while_other_leaders_are_down() -> None:
    cluster = Cluster({A: TWO, B: THREE}, down={THREE})
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            cluster.down.clear()

    cluster.on_locate = look
    await cluster.deliver(A, B)
    assert cluster.marked == [{A}, {B}]
    assert len(cluster.logs[TWO].written) == 1  # confirmed once, never sent again


async def test_a_marker_follows_its_partition_to_the_next_leader() -> None:
    cluster = Cluster({A: TWO})
    cluster.logs[TWO].errors[A] = NotLeaderOrFollower("no longer")

    def elect() -> None:
        if cluster.logs[TWO].written:
            cluster.leaders[A] = THREE

    cluster.on_locate = elect
    await cluster.deliver(A)
    assert [entry.name for entry in cluster.logs[THREE].written] == [A]


async def test_an_answer_that_is_lost_costs_a_second_marker_and_no_end() -> None:
    """The marker may be in the log: leaders know one that they have."""
    cluster = Cluster({A: TWO}, lost_answers=2)
    await cluster.deliver(A)
    assert len(cluster.logs[TWO].written) == 3
    assert cluster.marked == [{A}]


@pytest.mark.parametrize("known", [True, False], ids=["led as far as is known", "not known"])
async def test_a_partition_without_a_topic_counts_as_marked(known: bool) -> None:
    """A deleted topic has no reader that waits."""
    cluster = Cluster({A: TWO} if known else {})
    cluster.logs[TWO].errors[A] = NotLeaderOrFollower("deleted")
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            cluster.leaders.clear()
            cluster.gone.add(A)

    cluster.on_locate = look
    await cluster.deliver(A)
    assert cluster.marked == [{A}]


async def test_a_partition_that_cannot_be_written_is_tried_until_it_can() -> None:
    """Also for as long as its ISR is too small: a transaction never ends in part."""
    cluster = Cluster({A: TWO, B: TWO})
    cluster.logs[TWO].errors[A] = NotEnoughReplicas("two are missing")

    def heal() -> None:
        if len(cluster.logs[TWO].written) > 20:
            cluster.logs[TWO].errors.clear()

    cluster.on_locate = heal
    await cluster.deliver(A, B)
    assert cluster.marked == [{B}, {A}]


def test_the_more_transactions_wait_the_longer_each_of_them_waits() -> None:
    """A partition without replicas in sync, and the timeouts of thousands: their rounds took all the time of
    brokers, whose replicas did not come back into the ISR then."""
    count, seconds = 2_000, 20
    loop = SimulatedLoop.new(Random(1))
    clock = clock_of(loop)
    cluster = Cluster({A: ME})
    log = cluster.logs[ME]
    log.errors[A] = NotEnoughReplicas("two are missing")

    async def deliver_all() -> int:
        sender = MarkerSender(ME, cluster.locate, MarkerWrites(log, MEMBERS, clock), cluster.send, clock)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(sender.run())
            async with asyncio.TaskGroup() as deliveries:
                for number in range(count):
                    markers = SendMarkers(f"payments-{number}", PRODUCER, True, frozenset({A}))
                    deliveries.create_task(
                        sender.deliver(markers, 9, lambda done: cluster.marked.append(set(done)))
                    )
                await clock.sleep(seconds)
                tried = len(log.written)
                log.errors.clear()
            running.cancel()
        return tried

    tried = loop.run(deliver_all())
    assert count < tried < 2 * RETRIES_PER_S * seconds
    assert cluster.marked == [{A}] * count
    loop.close()


async def test_nothing_counts_before_its_leader_says_that_it_is_committed() -> None:
    cluster = Cluster({A: ME, B: TWO})
    for logs in cluster.logs.values():
        logs.holding = True
    async with asyncio.TaskGroup() as tasks:
        delivering = tasks.create_task(cluster.deliver(A, B))
        await eventually(lambda: bool(cluster.logs[ME].held and cluster.logs[TWO].held))
        assert not cluster.marked
        cluster.logs[ME].held.pop()(None)
        cluster.logs[TWO].held.pop()(None)
        await delivering
    assert cluster.marked == [{A, B}]


async def test_a_coordinator_that_was_replaced_stops_sending() -> None:
    cluster = Cluster({A: ME})
    cluster.logs[ME].holding = True
    async with cluster.sending() as sender, asyncio.TaskGroup() as tasks:
        markers = SendMarkers("payments", PRODUCER, True, frozenset({A}))
        delivering = tasks.create_task(sender.deliver(markers, 9, lambda done: None))
        await eventually(lambda: bool(cluster.logs[ME].held))
        delivering.cancel()
        await eventually(delivering.done)
        cluster.logs[ME].held.pop()(None)  # the answer comes too late
    assert not cluster.marked


async def test_markers_of_one_leader_share_calls() -> None:
    cluster = Cluster({TopicPartition("orders", number): TWO for number in range(500)})
    await cluster.deliver(*cluster.leaders)
    assert (cluster.calls, len(cluster.logs[TWO].written)) == (1, 500)


async def test_only_brokers_write_markers() -> None:
    """A3: a client that could end the transactions of others would be worse than none."""
    logs = Logs()
    batch = MarkerBatch(TWO, [MarkerEntry(A, Marker(PRODUCER, commit=True, coordinator_epoch=1))])
    with pytest.raises(ClusterAuthorizationFailed):
        await MarkerWrites(logs, Access(Authorizer(None)), HandClock()).write(batch, CALLER)
    assert not logs.written


async def test_a_leader_answers_each_marker_in_order() -> None:
    logs = Logs(errors={B: NotLeaderOrFollower("elsewhere")})
    marker = Marker(PRODUCER, commit=True, coordinator_epoch=1)
    batch = MarkerBatch(TWO, [MarkerEntry(name, marker) for name in (A, B, C)])
    assert await MarkerWrites(logs, MEMBERS, HandClock()).write(batch, CALLER) == [None, logs.errors[B], None]
