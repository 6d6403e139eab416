"""Elections against a ZooKeeper in memory: late notices, lost replies, races, leaders deposed unnoticed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from broker.elector import Elector
from broker.leadership import Leadership
from broker.membership import Membership
from broker.replica import Replica
from broker.replica_manager import ReplicaManager
from broker.state_changes.receiver import StateChangeReceiver
from broker.state_changes.sender import StateChangeSender
from broker.storage.data_folder import DataFolder
from strandline.adapters import queue_znodes, znodes
from strandline.config import TopicConfig
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch
from strandline.metadata import Endpoint, IsrMember, PartitionState
from strandline.ports import SetData
from strandline.state_changes import Command, StateChange
from tests.broker.replicas import ASSIGNED, CLOCK, KEY, LIVE, NAME, Recorded, settings
from tests.simulation.znode_tree import MemorySession, ZnodeTree
from tests.waiting import eventually

ME = BrokerId(2)
ISR = znodes.isr(NAME.topic, NAME.partition)
LEADER = znodes.leader(NAME.topic, NAME.partition)


def led_by(leader: int, *isr: int, epoch: int) -> PartitionState:
    members = tuple(IsrMember(BrokerId(b), BrokerEpoch(b * 10)) for b in isr)
    return PartitionState(BrokerId(leader), LeaderEpoch(epoch), members)


@dataclass
class Seat:
    """Broker 2 with one replica; fulfils `replica_manager.Session` and `Fetchers`."""

    coordination: MemorySession
    tree: ZnodeTree
    manager: ReplicaManager
    membership: Membership
    tasks: asyncio.TaskGroup
    followed: list[tuple[BrokerId, LeaderEpoch]] = field(default_factory=list)
    resigned: list[LeaderEpoch] = field(default_factory=list)
    recorder: Recorded = field(default_factory=Recorded)

    def __post_init__(self) -> None:
        self.sender = StateChangeSender(ME, self.coordination, CLOCK)
        self.elector = Elector(
            self.manager,
            self.membership,
            self.coordination,
            self.sender,
            self.recorder,
            self.manager.settings,
            CLOCK,
        )
        self.receiver = StateChangeReceiver(
            self.manager,
            self.coordination,
            self.recorder,
            CLOCK,
            lambda r, handed: self.elector.vacant(r, handed_over=handed),
        )
        self.replica = self.manager.create(NAME, KEY, TopicConfig())
        self.manager.reconfigure(self.replica, ASSIGNED, TopicConfig())
        self.manager.session = self

    # --- what the manager asks -----------------------------------------------------------------

    @property
    def fetchers(self) -> Seat:
        return self

    def exercise(self, leadership: Leadership) -> None:
        self.tasks.create_task(leadership.run())

    def vacant(self, replica: Replica) -> None:
        self.elector.vacant(replica)

    def resign(self, replica: Replica, epoch: LeaderEpoch) -> None:
        self.resigned.append(epoch)

    def follow(self, replica: Replica) -> None:
        self.followed.append((replica.leader, replica.leader_epoch))

    follow_again = follow

    def unfollow(self, replica: Replica) -> None:
        return

    # --- what ZooKeeper has ----------------------------------------------------------------------

    @property
    def record(self) -> PartitionState:
        return znodes.load_isr(NAME.topic, NAME.partition, self.tree.nodes[ISR].data)

    def write(self, state: PartitionState) -> int:
        """Somebody else writes `isr`; the new version."""
        written = self.tree.apply(SetData(ISR, znodes.dump_isr(state)), owner=0)
        assert isinstance(written, int)
        return written

    def lead(self, epoch: int) -> None:
        state = led_by(ME, 1, 2, 3, epoch=epoch)
        self.manager.lead(self.replica, state, self.write(state))
        assert self.replica.leadership is not None
        for follower in (BrokerId(1), BrokerId(3)):  # they have all there is: nobody is ever late
            self.replica.leadership.fetched(follower, LIVE[follower].epoch, 0, subscription=1)

    async def looked(self, *, times: int) -> None:
        """The elector has read `isr` so often, and acted on it."""
        await eventually(lambda: self.coordination.reads[ISR] >= times)
        for _ in range(10):
            await asyncio.sleep(0)

    def leads_in(self) -> int | None:
        leadership = self.replica.leadership
        return None if leadership is None else leadership.epoch


@pytest.fixture
async def seat(tmp_path: Path) -> AsyncIterator[Seat]:
    """All three brokers are alive, 1 leads in epoch 5 by what is written, 2 has noticed nothing yet."""
    tree = ZnodeTree()
    session = tree.open_session()
    for path in (*znodes.SKELETON, ISR):
        await session.ensure_path(path)
    for _ in range(5):
        await session.set(znodes.EPOCH, b"")
    await session.set(znodes.topic(NAME.topic), znodes.dump_topic(znodes.TopicNode(KEY.topic_id, 1, {})))
    await session.create(znodes.replicas(NAME.topic, NAME.partition), znodes.dump_replicas(ASSIGNED))
    await session.set(ISR, znodes.dump_isr(led_by(1, 1, 2, 3, epoch=5)))
    boot = tmp_path / "boot"
    boot.write_text("this one")
    folder = DataFolder(tmp_path / "data", ME, boot)
    given = settings(broker_id=ME, data_dir=folder.path, election_step_ms=20)
    membership = Membership(session, folder, given, CLOCK, Endpoint(ME, "h", 1))
    membership.registration, membership.live = LIVE[ME], LIVE
    folder.begin_life(LIVE[ME].epoch)
    manager = ReplicaManager(given, folder, CLOCK)
    manager.live_changed(LIVE)
    try:
        async with asyncio.TaskGroup() as tasks:
            seat = Seat(session, tree, manager, membership, tasks)
            await seat.receiver.open()
            running = [tasks.create_task(seat.elector.run()), tasks.create_task(seat.sender.run())]
            yield seat
            manager.end_session()
            for task in running:
                task.cancel()
    finally:
        folder.close()


# --- a leader that missed its end -------------------------------------------------------------------


async def test_a_leader_that_was_deposed_unnoticed_learns_it_from_its_successor(seat: Seat) -> None:
    """CORRECTNESS E1, E6: on a partition without traffic nothing else would ever tell it, and it would
    answer reads with an old end of the log for ever."""
    seat.lead(5)
    seat.write(led_by(3, 1, 3, epoch=6))
    await seat.coordination.create(
        znodes.state_entry_prefix(ME),
        queue_znodes.dump_state_changes(
            [StateChange("id", Command.START_REPLICA, NAME.topic, KEY, LeaderEpoch(6), BrokerId(3), at_ms=0)]
        ),
        sequential=True,
    )
    await seat.receiver.drain()
    await eventually(lambda: (3, 6) in seat.followed)
    assert seat.leads_in() is None


async def test_a_deposed_leader_stops_even_if_its_successor_is_gone_already(seat: Seat) -> None:
    """CORRECTNESS E1: it is no member of the ISR any more, so it waits, and does not lead meanwhile."""
    seat.lead(5)
    seat.write(led_by(3, 3, epoch=6))
    seat.membership.live = {b: r for b, r in LIVE.items() if b != 3}
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.leads_in() is None)
    assert seat.record == led_by(3, 3, epoch=6)


async def test_a_notice_that_comes_while_the_claim_is_made_deposes_nobody(seat: Seat) -> None:
    """DESIGN §4: who leads by record and in fact leads on."""
    taken, go_on = seat.coordination.hold()
    seat.elector.suspect(LIVE[BrokerId(1)].epoch)
    seat.elector.vacant(seat.replica)
    await taken.wait()
    seat.elector.vacant(seat.replica)
    go_on.set()
    await eventually(lambda: seat.leads_in() == 6)
    await seat.looked(times=2)
    assert seat.leads_in() == 6


# --- suspicion ----------------------------------------------------------------------------------------


async def test_who_waits_because_of_a_suspicion_follows_once_it_is_cleared(seat: Seat) -> None:
    """CORRECTNESS H10, T5: outside the ISR a suspect's follower may not stand; it must not wait for ever."""
    seat.write(led_by(1, 1, 3, epoch=6))
    seat.elector.suspect(LIVE[BrokerId(1)].epoch)
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.replica.leader_epoch == 6)
    assert seat.followed == []
    seat.elector.cleared(LIVE[BrokerId(1)].epoch)
    await eventually(lambda: seat.followed == [(1, 6)])


async def test_a_suspect_is_deposed_and_leaves_the_isr(seat: Seat) -> None:
    """CORRECTNESS E1: the compare-and-set takes from it what it would need to commit."""
    await seat.coordination.create(LEADER, b"{}", ephemeral=True)
    seat.elector.suspect(LIVE[BrokerId(1)].epoch)
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.leads_in() == 6)
    assert seat.record == led_by(2, 2, 3, epoch=6)
    assert seat.replica.log.epochs.latest == 6  # T4: written before anything is appended


# --- what becomes of a claim --------------------------------------------------------------------------


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not-applied"])
async def test_a_claim_whose_reply_is_lost_is_made_again_in_another_epoch(seat: Seat, applied: bool) -> None:
    """CORRECTNESS I4, E7, E9: nobody leads in an epoch that it may or may not have won."""
    seat.membership.live = {b: r for b, r in LIVE.items() if b != 1}
    seat.coordination.lose(applied=applied)
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.leads_in() == 7)
    assert seat.record == led_by(2, 2, 3, epoch=7)


async def test_whoever_is_faster_is_followed(seat: Seat) -> None:
    """CORRECTNESS I3, E5: the claim is a compare-and-set on what it was decided on."""
    seat.membership.live = {b: r for b, r in LIVE.items() if b != 1}
    taken, go_on = seat.coordination.hold(SetData)  # of /epoch
    seat.elector.vacant(seat.replica)
    await taken.wait()
    seat.write(led_by(3, 2, 3, epoch=7))
    go_on.set()
    await eventually(lambda: seat.followed == [(3, 7)])
    assert seat.leads_in() is None
    assert LEADER not in seat.tree.nodes


async def test_each_follower_is_told_by_its_queue(seat: Seat) -> None:
    """DESIGN §4: by epoch, `start-replica` to every other member of AR, dead ones too."""
    seat.membership.live = {b: r for b, r in LIVE.items() if b != 1}
    seat.elector.vacant(seat.replica)
    await eventually(lambda: _queued(seat, 1) and _queued(seat, 3))
    for change in (*_queued(seat, 1), *_queued(seat, 3)):
        assert (change.command, change.leader_epoch) == (Command.START_REPLICA, 6)


def _queued(seat: Seat, broker: int) -> list[StateChange]:
    prefix = znodes.state_entry_prefix(BrokerId(broker))
    return [
        change
        for path, node in seat.tree.nodes.items()
        if path.startswith(prefix)
        for change in queue_znodes.load_state_changes(node.data)
    ]


async def test_outside_the_isr_nobody_stands(seat: Seat) -> None:
    """DESIGN §4, CORRECTNESS E2: unless unclean election is allowed, and its loss is told exactly."""
    seat.write(led_by(NO_BROKER, 1, epoch=5))
    seat.membership.live = {b: r for b, r in LIVE.items() if b != 1}
    seat.elector.vacant(seat.replica)
    await seat.looked(times=1)
    assert seat.leads_in() is None
    unclean = TopicConfig(unclean_leader_election_enable=True)
    seat.manager.reconfigure(seat.replica, ASSIGNED, unclean)
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.leads_in() == 6)
    assert seat.record == led_by(2, 2, epoch=6)


async def test_a_life_that_lost_its_tail_does_not_stand(seat: Seat) -> None:
    """CORRECTNESS E2: the ISR names a life whose log is no more."""
    lost = replace(led_by(1, 1, epoch=5), isr=(IsrMember(ME, BrokerEpoch(3)),))
    seat.write(lost)
    seat.membership.live = {b: r for b, r in LIVE.items() if b != 1}
    seat.elector.vacant(seat.replica)
    await seat.looked(times=1)
    assert seat.leads_in() is None
    assert seat.record == lost


async def test_a_log_that_fails_as_it_is_elected_resigns(seat: Seat) -> None:
    """CORRECTNESS E14, T4: one bad disk costs one leadership; the broker and its other partitions go on."""
    seat.membership.live = {b: r for b, r in LIVE.items() if b != 1}
    for path in seat.replica.log.directory.iterdir():
        path.unlink()
    seat.replica.log.directory.rmdir()  # the epoch file has no place to go
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.resigned == [6])
    assert seat.leads_in() is None
    assert seat.replica.log.failed is not None
