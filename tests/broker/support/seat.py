"""Broker 2 with one replica and its elections, on a ZooKeeper in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.election.elector import Elector
from strandline.broker.membership.registration import SessionRegistration
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.broker.replicas.session_context import SessionContext
from strandline.broker.state_changes.receiver import StateChangeReceiver
from strandline.broker.state_changes.sender import StateChangeSender
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch
from strandline.ports import Clock, SetData
from strandline.vocabulary.metadata import Endpoint, IsrMember, PartitionState
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.replicas import ASSIGNED, CLOCK, HOST, KEY, LIVE, NAME, Recorded, settings
from tests.waiting import eventually
from tests.znode_tree import MemorySession, ZnodeTree

ME = BrokerId(2)
ISR = znodes.isr(NAME.topic, NAME.partition)
LEADER = znodes.leader(NAME.topic, NAME.partition)


def led_by(leader: int, *isr: int, epoch: int) -> PartitionState:
    members = tuple(IsrMember(BrokerId(b), BrokerEpoch(b * 10)) for b in isr)
    return PartitionState(BrokerId(leader), LeaderEpoch(epoch), members)


@dataclass
class Seat:
    """Broker 2 with one replica; fulfils `session_port.Session` and `Reach`."""

    coordination: MemorySession
    tree: ZnodeTree
    manager: ReplicaManager
    registration: SessionRegistration
    tasks: asyncio.TaskGroup
    followed: list[tuple[BrokerId, LeaderEpoch]] = field(default_factory=list)
    unfollowed: list[LeaderEpoch] = field(default_factory=list)
    resigned: list[LeaderEpoch] = field(default_factory=list)
    recorder: Recorded = field(default_factory=Recorded)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    silent: set[BrokerId] = field(default_factory=set)
    """Brokers that do not answer this one."""
    words: list[BrokerEpoch] = field(default_factory=list)
    """Lives that are heard of while others are asked."""

    def __post_init__(self) -> None:
        self.context = SessionContext(self.manager, self.coordination, self.registration, self.recorder)
        self.sender = StateChangeSender(self.context)
        self.elector = Elector(self.context, self.sender, self)
        self.receiver = StateChangeReceiver(self.context, self.elector.vacant)
        self.replica = self.manager.create(NAME, KEY, TopicConfig())
        self.manager.reconfigure(self.replica, PartitionAssignment(ASSIGNED), TopicConfig())
        self.manager.session = self

    # --- what the manager asks -----------------------------------------------------------------

    def exercise(self, leadership: Leadership) -> None:
        self.tasks.create_task(leadership.run())

    def vacant(self, replica: Replica) -> None:
        self.elector.vacant(replica)

    def soon(self, callback: Callable[[], None]) -> None:
        self.loop.call_soon_threadsafe(callback)

    def resign(self, replica: Replica, epoch: LeaderEpoch) -> None:
        self.resigned.append(epoch)

    def probe(self, broker: BrokerId) -> None:
        return

    def peers_changed(self) -> None:
        self.elector.look_over()

    async def answering(self, brokers: Iterable[BrokerId]) -> frozenset[BrokerEpoch]:
        """Fulfils `Reach`."""
        while self.words:
            self.manager.peers.reached(self.words.pop())
        return frozenset(LIVE[broker].epoch for broker in brokers if broker not in self.silent)

    def follow(self, replica: Replica) -> None:
        self.followed.append((replica.leader, replica.leader_epoch))

    follow_again = follow

    def unfollow(self, replica: Replica) -> None:
        self.unfollowed.append(replica.leader_epoch)

    # --- what ZooKeeper has ----------------------------------------------------------------------

    @property
    def record(self) -> PartitionState:
        return isr_znodes.load_isr(NAME.topic, NAME.partition, self.tree.nodes[ISR].data)

    def write(self, state: PartitionState) -> int:
        """Another broker writes `isr`; the new version."""
        written = self.tree.apply(SetData(ISR, isr_znodes.dump_isr(state)), owner=0)
        assert isinstance(written, int)
        return written

    def lead(self, epoch: int) -> None:
        state = led_by(ME, 1, 2, 3, epoch=epoch)
        self.manager.lead(self.replica, state, self.write(state))
        assert self.replica.leadership is not None
        for follower in (BrokerId(1), BrokerId(3)):  # they have every record: none is ever late
            self.replica.leadership.fetched(follower, LIVE[follower].epoch, 0, subscription=1)

    def lead_alone(self, epoch: int, *others: int) -> Leadership:
        """Leads in sync with itself, and with these silent others."""
        state = led_by(ME, ME, *others, epoch=epoch)
        self.manager.lead(self.replica, state, self.write(state))
        assert self.replica.leadership is not None
        return self.replica.leadership

    def commit(self, end: int) -> None:
        """Both followers have the records below an offset."""
        leadership = self.replica.leadership
        assert leadership is not None
        for follower in (BrokerId(1), BrokerId(3)):
            leadership.fetched(follower, LIVE[follower].epoch, end, subscription=1)
        leadership.turn()

    async def looked(self, *, times: int) -> None:
        """The elector has read `isr` this number of times, and acted on it."""
        await eventually(lambda: self.coordination.reads[ISR] >= times)
        for _ in range(10):
            await asyncio.sleep(0)

    def leads_in(self) -> int | None:
        leadership = self.replica.leadership
        return None if leadership is None else leadership.epoch


@asynccontextmanager
async def seated(tmp_path: Path, *, clock: Clock = CLOCK, **given: Any) -> AsyncIterator[Seat]:
    """All three brokers are alive, 1 leads in epoch 5 by what is written, 2 has noticed nothing yet."""
    tree = ZnodeTree()
    session = tree.open_session()
    queues = map(znodes.state_queue, LIVE)
    for path in (*znodes.SKELETON, *queues, ISR, znodes.topic_id(KEY.topic_id)):
        await session.ensure_path(path)
    for _ in range(5):
        await session.set(znodes.EPOCH, b"")
    await session.set(znodes.topic(NAME.topic), znodes.dump_topic(znodes.TopicNode(KEY.topic_id, 1, {})))
    await session.create(znodes.replicas(NAME.topic, NAME.partition), znodes.dump_replicas(ASSIGNED))
    await session.set(ISR, isr_znodes.dump_isr(led_by(1, 1, 2, 3, epoch=5)))
    boot = tmp_path / "boot"
    boot.write_text("this one")
    folder = DataFolder(tmp_path / "data", ME, boot, SYSTEM_FILES)
    own = settings(broker_id=ME, data_dir=folder.path, election_step_ms=20, **given)
    registration = SessionRegistration(session, folder, own, CLOCK, Endpoint(ME, "h", 1))
    registration.own, registration.live = LIVE[ME], LIVE
    folder.begin_life(LIVE[ME].epoch)
    manager = ReplicaManager(own, folder, replace(HOST, clock=clock))
    manager.peers.live_changed(LIVE)
    try:
        async with asyncio.TaskGroup() as tasks:
            seat = Seat(session, tree, manager, registration, tasks)
            await seat.receiver.open(LIVE[ME].epoch)
            parts = (seat.elector.run(), seat.sender.run(), seat.receiver.run())
            running = [tasks.create_task(part) for part in parts]
            yield seat
            manager.end_session()
            for task in running:
                task.cancel()
    finally:
        folder.close()
