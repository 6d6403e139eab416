"""Replicas with real logs, leaderships on a ZooKeeper in memory, and what a test asks of both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from strandline.adapters.service_host import service_host
from strandline.adapters.system.memory_files import MemoryFiles
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.broker.core.replication.produce_ticket import ProduceOutcome
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.core.replication.replica_states import ReplicaState
from strandline.broker.events.replica_events import OnRecorded
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.broker.replication.follower_end import LeaderStream, StreamBroken
from strandline.broker.replication.incoming import IncomingCopies
from strandline.broker.replication.leader_end import FollowerStream
from strandline.broker.replication.throttle import CopyThrottle
from strandline.broker.storage.log import PartitionLog
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.config.services.broker import BrokerSettings
from strandline.errors import StrandlineError
from strandline.host import ServiceHost
from strandline.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionId,
    PartitionKey,
    TopicId,
    TopicPartition,
)
from strandline.records import decode, encode_values
from strandline.vocabulary.metadata import Endpoint, IsrMember, PartitionState, Registration
from strandline.vocabulary.replication import Hello, Subscribe
from strandline.vocabulary.state_changes import StateChangeEvent
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.memory_stream import MemoryStream, Said
from tests.waiting import eventually
from tests.znode_tree import MemorySession, ZnodeTree


@dataclass
class Recorded:
    """Keeps the recorded events, in order, as if `__state_changes` had them at once. Fulfils `EventRecorder`.

    `silent`: recorded events are not confirmed until the test answers.
    """

    events: list[StateChangeEvent] = field(default_factory=list)
    silent: bool = False
    waiting: list[OnRecorded] = field(default_factory=list)
    on_keep: Callable[[], object] = lambda: None

    def record(self, events: Sequence[StateChangeEvent], on_recorded: OnRecorded | None = None) -> None:
        self.events.extend(events)
        if on_recorded is not None:
            self.waiting.append(on_recorded)
        if not self.silent:
            self.answer(recorded=True)

    def answer(self, *, recorded: bool) -> None:
        """Answer all waiting callers."""
        waiting, self.waiting = self.waiting, []
        for on_recorded in waiting:
            on_recorded(recorded)

    def record_durably(self, events: Sequence[StateChangeEvent]) -> None:
        self.on_keep()
        self.record(events)


NAME = TopicPartition("orders", 0)
KEY = PartitionKey(TopicId("0" * 32), PartitionId(0))
ASSIGNED = tuple(BrokerId(b) for b in (1, 2, 3))
LIVE = {b: Registration(Endpoint(b, "h", 1), BrokerEpoch(b * 10)) for b in ASSIGNED}
HOST = service_host()
CLOCK = HOST.clock


def settings(**given: Any) -> BrokerSettings:
    quick = {"fetcher_retry_ms": 1, "watermark_push_delay_ms": 0}
    return BrokerSettings(**{"broker_id": 1, "data_dir": Path("unused"), **quick, **given})


def open_replica(
    config: TopicConfig | None = None,
    *,
    files: MemoryFiles | None = None,
    high_watermark: int = 0,
    name: TopicPartition = NAME,
) -> Replica:
    """An empty follower, or the one that lies in `files`."""
    config = config or TopicConfig()
    log = PartitionLog.open(
        Path("/data/orders-0"), config, clock=CLOCK, clean=False, files=files or MemoryFiles()
    )
    replica = Replica(name, KEY, log, config, Offset(high_watermark), trail_events_max=16)
    replica.assignment = PartitionAssignment(ASSIGNED)
    replica.become(ReplicaState.FOLLOWER)
    return replica


def batch(
    *values: str, producer: tuple[int, int] | None = None, base_offset: int = 0, leader_epoch: int = -1
) -> bytes:
    """One batch. `producer`: id and first sequence."""
    producer_id, sequence = producer or (-1, -1)
    return encode_values(
        [value.encode() for value in values],
        CLOCK.wall_ms(),
        producer_id=producer_id,
        producer_epoch=-1 if producer is None else 0,
        base_sequence=sequence,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )


def write(replica: Replica, epoch: int, *values: str) -> None:
    """Append as a leader of this epoch, one batch for each value, without notifying followers."""
    replica.log.appending.begin_epoch(epoch)
    for value in values:
        replica.log.appending.as_leader(batch(value), epoch, now_ms=CLOCK.wall_ms())


def values(replica: Replica) -> list[str]:
    """The records in the log, committed or not."""
    log, found = replica.log, list[str]()
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data, next_offset = log.read_range(offset, 1 << 20, below=log.log_end_offset)
        found += [(record.value or b"").decode() for record in decode(data, from_offset=offset)]
        offset = next_offset
    return found


@dataclass(slots=True)
class Led:
    """A replica that leads, and what became of its leadership."""

    replica: Replica
    leadership: Leadership
    session: MemorySession
    stepped_down: list[PartitionState | None]
    handed_over: list[BrokerId]
    """Whom it gave the leadership to."""
    recorded: Recorded
    outcomes: list[ProduceOutcome] = field(default_factory=list)

    def produce(self, *values: str, acks: int = -1, timeout_ms: int = 60_000) -> None:
        """Outcomes are collected in order of their coming."""
        self.leadership.produce(batch(*values), acks=acks, timeout_ms=timeout_ms, done=self.outcomes.append)

    def follows(self, broker: int, end: int) -> bool:
        """True if this follower last reported that its log reaches this offset; -1: it reported nothing that
        counts."""
        return self.leadership.core.follower_end(BrokerId(broker)) == end

    def find(self, key: PartitionKey, topic: str) -> Replica:
        assert (key, topic) == (KEY, NAME.topic)
        return self.replica

    def link(self, follower: int = 2, **given: Any) -> FollowerStream:
        """The leader's end of a stream, to be played by hand."""
        hello = Hello(BrokerId(follower), BrokerEpoch(follower * 10), BrokerId(1), "cluster")
        wanted = settings(**given)
        return FollowerStream(hello, self.find, CopyThrottle(wanted, CLOCK), wanted, CLOCK)


@asynccontextmanager
async def leading(
    replica: Replica,
    epoch: int,
    *,
    isr: Sequence[int] = (1, 2, 3),
    tree: ZnodeTree | None = None,
    **given: Any,
) -> AsyncIterator[Led]:
    """Broker 1 leads this replica, its commit task running; at the end the leadership ends."""
    tree = tree or ZnodeTree()
    session = tree.open_session()
    members = tuple(IsrMember(BrokerId(b), BrokerEpoch(b * 10)) for b in isr)
    state = PartitionState(BrokerId(1), LeaderEpoch(epoch), members)
    path = znodes.isr(NAME.topic, NAME.partition)
    await session.ensure_path(path)
    await session.ensure_path(znodes.topic_id(KEY.topic_id))
    for broker in LIVE:
        await session.ensure_path(znodes.broker(broker))
    version = await session.set(path, isr_znodes.dump_isr(state))
    stepped_down: list[PartitionState | None] = []
    handed_over: list[BrokerId] = []
    recorded = Recorded()

    def step_down(found: PartitionState | None) -> None:
        stepped_down.append(found)
        replica.leadership = None
        leadership.end()

    def hand_over(successor: BrokerId) -> None:
        handed_over.append(successor)
        replica.leadership = None
        leadership.end()

    replica.learn_leader(BrokerId(1), LeaderEpoch(epoch))
    replica.log.appending.begin_epoch(epoch)
    leadership = Leadership(
        replica, state, version, settings=settings(**given), session=session, host=HOST, live=LIVE,
        recorder=recorded, on_step_down=step_down, on_handed_over=hand_over,
    )  # fmt: skip
    replica.become(ReplicaState.LEADER)
    replica.leadership = leadership
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(leadership.run())
        try:
            yield Led(replica, leadership, session, stepped_down, handed_over, recorded)
        finally:
            replica.leadership = None
            leadership.end()


def subscribe(epoch: int, fetch_offset: int, last_epoch: int, *, sub_id: int = 1) -> Subscribe:
    return Subscribe(sub_id, NAME.topic, KEY, epoch, fetch_offset, last_epoch)


@dataclass(slots=True)
class Followed:
    """A replica that follows broker 1 over one stream after another."""

    replica: Replica
    link: LeaderStream
    streams: list[MemoryStream]
    refused: list[StrandlineError]
    lost: list[BrokerId]
    answered: list[BrokerId]
    recorded: Recorded

    @property
    def stream(self) -> MemoryStream:
        return self.streams[-1]

    async def heard(self) -> Said:
        """The follower's next message, on the newest stream."""
        await eventually(lambda: self.streams)
        return await self.stream.heard()


@asynccontextmanager
async def following(
    replica: Replica,
    epoch: int,
    *,
    leader: Led | None = None,
    broker: int = 2,
    copies: IncomingCopies | None = None,
    unopened: Iterable[StreamBroken] = (),
    owes_beats: bool = False,
    host: ServiceHost = HOST,
    **given: Any,
) -> AsyncIterator[Followed]:
    """Broker 2 follows 1 in this epoch: over streams that `leader` serves, or that the test plays. The first
    attempts to open one fail as `unopened` says. `owes_beats`: as those of frames."""
    failures = iter(unopened)
    streams: list[MemoryStream] = []
    refused: list[StrandlineError] = []
    lost: list[BrokerId] = []
    answered: list[BrokerId] = []
    recorded = Recorded()
    async with asyncio.TaskGroup() as tasks:

        async def open_stream(_: Endpoint) -> MemoryStream:
            if (failure := next(failures, None)) is not None:
                raise failure
            stream = MemoryStream(owes_beats=owes_beats)
            streams.append(stream)
            if leader is not None:
                tasks.create_task(stream.serve(leader.link(broker, **given)))
            return stream

        link = LeaderStream(
            BrokerId(1),
            Hello(BrokerId(broker), BrokerEpoch(broker * 10), BrokerId(1), "cluster"),
            open_stream=open_stream,
            endpoint=lambda _: Endpoint(1, "h", 1),
            on_lost=lost.append,
            on_answered=answered.append,
            on_refused=lambda _, error: refused.append(error),
            copies=copies or IncomingCopies(0, CLOCK),
            settings=settings(**given),
            host=host,
            recorder=recorded,
        )
        replica.learn_leader(BrokerId(1), LeaderEpoch(epoch))
        link.follow(replica)
        running = tasks.create_task(link.run())
        try:
            yield Followed(replica, link, streams, refused, lost, answered, recorded)
        finally:
            running.cancel()
            for stream in streams:
                await stream.close()


DATA: Final = Path("/data/1")


@contextmanager
def life(files: MemoryFiles, epoch: int) -> Iterator[ReplicaManager]:
    """One life of broker 1 that ends by a kill. Its logs are in DATA."""
    folder = DataFolder(DATA, BrokerId(1), Path("/boot_id"), files)
    manager = ReplicaManager(settings(data_dir=DATA), folder, HOST)
    manager.load()
    folder.begin_session(epoch)
    folder.begin_life(BrokerEpoch(epoch))
    yield manager
