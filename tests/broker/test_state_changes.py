"""Requests from a queue in memory, carried out on real logs. What ZooKeeper says decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from broker.core.replica_states import ReplicaState
from broker.replica import Replica
from broker.state_changes import sender as sending
from broker.state_changes.reconciler import Reconciler
from strandline.adapters import queue_znodes, znodes
from strandline.errors import NotLeaderOrFollower, UnknownTopicOrPartition
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.metadata import Reassignment
from strandline.ports import Create, Delete, SetData
from strandline.state_changes import Command, Happening, RequestState, StateChange, StateChangeEvent
from tests.broker.replicas import ASSIGNED, CLOCK, KEY, LIVE, NAME, values, write
from tests.broker.seat import ISR, ME, Seat, led_by, seated
from tests.waiting import eventually

START, CLOSE, DELETE = Command.START_REPLICA, Command.CLOSE_REPLICA, Command.DELETE_REPLICA
COMPLETED, SUPERSEDED, FAILED = RequestState.COMPLETED, RequestState.SUPERSEDED, RequestState.FAILED
QUEUE = znodes.state_queue(ME)
OTHER = PartitionKey(TopicId("1" * 32), PartitionId(0))
"""Of another incarnation of the topic."""

_numbers = count()


@dataclass
class Desk:
    """Broker 2 and its queue."""

    seat: Seat

    # --- what ZooKeeper has ------------------------------------------------------------------

    def set(self, path: str, data: bytes) -> None:
        self.seat.tree.apply(SetData(path, data), owner=0)

    def assign(self, *brokers: int) -> None:
        self.set(znodes.replicas(*NAME), znodes.dump_replicas(brokers))

    async def moves_away(self) -> None:
        """A reassignment is to take the partition from broker 2 to 4."""
        wanted = Reassignment(KEY.topic_id, (BrokerId(1), BrokerId(4), BrokerId(3)), ASSIGNED)
        path = znodes.reassigned(*NAME)
        await self.seat.coordination.ensure_path(path)
        self.set(path, znodes.dump_reassignment(wanted))
        self.assign(*wanted.grown)

    async def stays(self) -> None:
        """It was cancelled."""
        for path in (znodes.reassigned(*NAME), znodes.reassigned_topic(NAME.topic)):
            self.seat.tree.apply(Delete(path), owner=0)
        self.assign(*ASSIGNED)

    # --- the queue -----------------------------------------------------------------------------

    async def queue(self, *changes: StateChange) -> None:
        data = queue_znodes.dump_state_changes(changes)
        await self.seat.coordination.create(znodes.state_entry_prefix(ME), data, sequential=True)

    async def asked(
        self, command: Command, epoch: int = 5, requester: int = 1, key: PartitionKey = KEY
    ) -> StateChangeEvent:
        """The end of one request, once its znode is gone."""
        change = request(command, epoch, requester, key)
        await self.queue(change)
        await self.drained()
        (end,) = self.ends(change)
        return end

    async def drained(self) -> None:
        await self.seat.receiver.drain()
        await eventually(lambda: self.seat.tree.children(QUEUE) == [])

    def ends(self, change: StateChange) -> list[StateChangeEvent]:
        return [
            event
            for event in self.seat.recorder.events
            if event.id == change.request_id and event.state in (COMPLETED, SUPERSEDED, FAILED)
        ]


def state(replica: Replica) -> ReplicaState:
    """As it is now, whatever it was before."""
    return replica.state


def request(command: Command, epoch: int = 5, requester: int = 1, key: PartitionKey = KEY) -> StateChange:
    number = f"request {next(_numbers)}"
    return StateChange(number, command, NAME.topic, key, LeaderEpoch(epoch), BrokerId(requester), at_ms=1)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with seated(tmp_path) as seat:
        yield Desk(seat)


# --- start --------------------------------------------------------------------------------------------


async def test_a_request_is_told_from_its_beginning_to_its_end(desk: Desk) -> None:
    """Seed 002, goal 7: requested, received, completed; nothing of it is left in the queue."""
    await desk.asked(START)
    assert [event.state for event in desk.seat.recorder.events] == [
        RequestState.REQUESTED,
        RequestState.RECEIVED,
        COMPLETED,
    ]


@pytest.mark.parametrize("command", [START, CLOSE])
async def test_of_another_incarnation_nothing_is_executed(desk: Desk, command: Command) -> None:
    """CORRECTNESS Q1."""
    end = await desk.asked(command, key=OTHER)
    assert end.state is SUPERSEDED
    assert "incarnation" in end.reason
    assert desk.seat.manager.get(OTHER) is None


async def test_an_epoch_that_is_over_asks_for_nothing(desk: Desk) -> None:
    """CORRECTNESS E6: also where only a request told of the later one."""
    assert (await desk.asked(START, epoch=9)).state is COMPLETED
    end = await desk.asked(CLOSE, epoch=8)
    assert (end.state, end.reason) == (SUPERSEDED, "epoch 9 is known here, and 8 is over")


async def test_what_zookeeper_does_not_assign_is_not_started(desk: Desk) -> None:
    """CORRECTNESS Q7: the request is a hint."""
    desk.assign(1, 3)
    end = await desk.asked(START)
    assert (end.state, end.reason) == (SUPERSEDED, "the replica is not assigned to this broker")


async def test_a_disk_that_takes_nothing_fails_the_request_and_not_the_broker(
    desk: Desk, tmp_path: Path
) -> None:
    """CORRECTNESS Q5: it is visible, with its reason."""
    second = KEY._replace(partition=PartitionId(1))
    topic = znodes.TopicNode(KEY.topic_id, 2, {})
    desk.set(znodes.topic(NAME.topic), znodes.dump_topic(topic))
    await desk.seat.coordination.ensure_path(znodes.replicas(NAME.topic, 1))
    desk.set(znodes.replicas(NAME.topic, 1), znodes.dump_replicas(ASSIGNED))
    in_the_way = desk.seat.manager.folder.path / f"{NAME.topic}-1-{KEY.topic_id}"
    in_the_way.write_text("a file")
    end = await desk.asked(START, key=second)
    assert end.state is FAILED
    assert "File exists" in end.reason
    in_the_way.unlink()
    assert (await desk.asked(START, key=second)).state is COMPLETED


# --- close --------------------------------------------------------------------------------------------


async def test_a_closed_replica_answers_as_one_that_does_not_lead_and_keeps_its_log(desk: Desk) -> None:
    """Seed 003's close-replica: nothing fetches or serves, the log stays, and it can be had again."""
    replica = desk.seat.replica
    write(replica, 5, "a", "b")
    await desk.moves_away()
    assert (await desk.asked(CLOSE)).state is COMPLETED
    assert state(replica) is ReplicaState.CLOSED
    assert desk.seat.manager.get(KEY) is None
    with pytest.raises(NotLeaderOrFollower):
        desk.seat.manager.named(*NAME)
    with pytest.raises(NotLeaderOrFollower):
        desk.seat.manager.known(KEY, NAME.topic)
    assert (await desk.asked(START, requester=NO_BROKER)).state is COMPLETED
    assert state(replica) is ReplicaState.CLOSED, "the controller's says to read again, and it is still to go"
    assert (await desk.asked(START, epoch=6)).state is COMPLETED
    assert state(replica) is ReplicaState.FOLLOWER, "a leader wants it"
    assert desk.seat.manager.named(*NAME) is replica
    assert values(replica) == ["a", "b"]


async def test_a_cancelled_reassignment_opens_what_it_closed(desk: Desk) -> None:
    """CORRECTNESS E16, Q7."""
    await desk.moves_away()
    await desk.asked(CLOSE)
    await desk.stays()
    await desk.asked(START, requester=NO_BROKER)
    assert state(desk.seat.replica) is ReplicaState.FOLLOWER


async def test_a_replica_that_is_to_stay_is_not_closed(desk: Desk) -> None:
    """CORRECTNESS Q6: the leader that asked died, and what it wanted was cancelled."""
    end = await desk.asked(CLOSE)
    assert (end.state, end.reason) == (SUPERSEDED, "the replica is to stay on this broker")
    assert state(desk.seat.replica) is ReplicaState.FOLLOWER


async def test_a_close_of_an_epoch_that_is_over_closes_nothing(desk: Desk) -> None:
    """CORRECTNESS E6: by what is written, if this broker has not heard of it yet."""
    await desk.moves_away()
    desk.seat.write(led_by(3, 1, 3, epoch=6))
    end = await desk.asked(CLOSE)
    assert (end.state, end.reason) == (SUPERSEDED, "epoch 6 has begun")


async def test_who_leads_does_not_close_and_says_what_was_wrong(desk: Desk) -> None:
    """DESIGN §4: an illegal transition is visible with its values, and costs the broker nothing."""
    desk.seat.lead(5)
    await desk.moves_away()
    end = await desk.asked(CLOSE)
    assert end.state is FAILED
    assert "leader → closing is illegal: it leads in epoch 5" in end.reason
    assert desk.seat.leads_in() == 5


async def test_a_close_of_what_is_not_here_is_done(desk: Desk) -> None:
    """CORRECTNESS Q2: the second time changes nothing."""
    await desk.moves_away()
    await desk.asked(CLOSE)
    assert (await desk.asked(CLOSE)).reason == "it was closed"
    desk.assign(1, 4, 3)
    await desk.asked(DELETE)
    assert (await desk.asked(CLOSE)).reason == "it was not here"


# --- delete -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", [False, True])
async def test_a_deletion_takes_the_log_closed_or_not(desk: Desk, closed: bool) -> None:
    replica = desk.seat.replica
    folder = replica.log.directory
    await desk.moves_away()
    if closed:
        await desk.asked(CLOSE)
    desk.assign(1, 4, 3)
    assert (await desk.asked(DELETE)).state is COMPLETED
    assert state(replica) is ReplicaState.DELETED
    assert list(folder.parent.glob(f"{NAME.topic}*")) == list(folder.parent.glob("*.deleted")) == []
    with pytest.raises(UnknownTopicOrPartition):
        desk.seat.manager.named(*NAME)
    assert (await desk.asked(DELETE)).reason == "it was not here"


async def test_the_new_incarnation_survives_the_deletion_of_the_old_one(desk: Desk) -> None:
    """CORRECTNESS Q1: queued for a dead broker, executed when the name is another topic's."""
    node = znodes.TopicNode(OTHER.topic_id, 1, {})
    desk.set(znodes.topic(NAME.topic), znodes.dump_topic(node))
    await desk.queue(request(DELETE), request(START, requester=NO_BROKER, key=OTHER))
    await desk.drained()
    new = desk.seat.manager.named(*NAME)
    assert (new.key, desk.seat.manager.get(KEY)) == (OTHER, None)
    assert new.log.directory.exists()
    assert not desk.seat.replica.log.directory.exists()


async def test_what_is_assigned_again_is_not_deleted(desk: Desk) -> None:
    """CORRECTNESS Q7: a member of the ISR must not lose its log because of an old request."""
    end = await desk.asked(DELETE)
    assert (end.state, end.reason) == (SUPERSEDED, "the replica is assigned to this broker again")
    assert state(desk.seat.replica) is ReplicaState.FOLLOWER


async def test_a_topic_that_cannot_be_read_deletes_nothing(desk: Desk) -> None:
    """CORRECTNESS Q7: what is not known is not denied."""
    desk.set(znodes.topic(NAME.topic), b"{")
    assert (await desk.asked(DELETE)).state is FAILED
    assert state(desk.seat.replica) is ReplicaState.FOLLOWER


# --- the znodes of the queue --------------------------------------------------------------------------


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("write_kind", [SetData, Delete])
async def test_a_lost_connection_gives_no_request_two_ends(
    desk: Desk, write_kind: type[SetData] | type[Delete], applied: bool
) -> None:
    """CORRECTNESS E9, Q2: the outcome is unknown, so it is looked at."""
    desk.seat.coordination.lose(write_kind, applied=applied)
    assert (await desk.asked(START)).state is COMPLETED


async def test_an_entry_waits_in_the_queue_until_it_is_recorded(desk: Desk) -> None:
    """Decided and not told: the znode keeps both, and execution waits for neither."""
    desk.seat.recorder.silent = True
    change = request(START)
    await desk.queue(change)
    await desk.seat.receiver.drain()
    (entry,) = desk.seat.tree.children(QUEUE)

    def queued() -> StateChange:
        (found,) = queue_znodes.load_state_changes(desk.seat.tree.nodes[f"{QUEUE}/{entry}"].data)
        return found

    await eventually(lambda: queued().end is not None and desk.seat.recorder.waiting)
    desk.seat.recorder.answer(recorded=False)
    desk.seat.receiver.look_again()
    await eventually(lambda: desk.seat.recorder.waiting)
    assert desk.seat.tree.children(QUEUE) == [entry]
    desk.seat.recorder.answer(recorded=True)
    await eventually(lambda: desk.seat.tree.children(QUEUE) == [])
    assert len({(event.state, event.at_ms) for event in desk.ends(change)}) == 1


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'[{"id": "x"}]', b'{"a": 1}', b'["x"]', b"7"])
async def test_what_nobody_can_read_is_removed_and_holds_up_nothing(desk: Desk, data: bytes) -> None:
    await desk.seat.coordination.create(znodes.state_entry_prefix(ME), data, sequential=True)
    assert (await desk.asked(START)).state is COMPLETED


# --- the requester's side -----------------------------------------------------------------------------


async def queued_for(desk: Desk, broker: int) -> list[StateChange]:
    path = znodes.state_queue(broker)
    names = sorted(desk.seat.tree.children(path)) if path in desk.seat.tree.nodes else []
    return [
        change
        for name in names
        for change in queue_znodes.load_state_changes(desk.seat.tree.nodes[f"{path}/{name}"].data)
    ]


async def test_who_queues_a_request_tells_it_at_once(desk: Desk) -> None:
    """Its broker may be dead for long: what was asked is seen."""
    desk.seat.sender.start_replicas(desk.seat.replica, LeaderEpoch(6), "a new leader")
    await eventually(lambda: len(desk.seat.recorder.events) == 2)
    for event, broker in zip(desk.seat.recorder.events, (1, 3), strict=True):
        (change,) = await queued_for(desk, broker)
        assert (event.id, event.broker, event.state) == (change.request_id, broker, RequestState.REQUESTED)
        assert (event.requester, event.epoch, event.reason) == (ME, 6, "a new leader")
        assert change.broker_epoch == LIVE[BrokerId(broker)].epoch, "CORRECTNESS E4"


@pytest.mark.parametrize("applied", [False, True])
async def test_a_request_that_may_be_queued_is_not_queued_twice(desk: Desk, applied: bool) -> None:
    """CORRECTNESS E9, Q2: what is sent next has an id of its own, so each of the two has one end."""
    await desk.seat.coordination.ensure_path(znodes.state_queue(1))
    desk.seat.coordination.lose(Create, applied=applied)
    desk.seat.sender.send(CLOSE, desk.seat.replica, LeaderEpoch(6), [BrokerId(1)], "")
    await eventually(lambda: desk.seat.recorder.events)
    found = await queued_for(desk, 1)
    assert len(found) == len({change.request_id for change in found}) == (2 if applied else 1)
    assert [event.id for event in desk.seat.recorder.events] == [found[-1].request_id]


async def test_a_queue_that_is_full_takes_no_start_and_loses_no_deletion(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CORRECTNESS Q4, Q5: a broker that is long gone reads what it is assigned when it returns."""
    monkeypatch.setattr(sending, "STATE_QUEUE_ENTRIES_MAX", 1)
    monkeypatch.setattr(sending, "FULL_QUEUE_S", 0.01)
    await desk.seat.coordination.ensure_path(f"{znodes.state_queue(1)}/request-0000000000")
    desk.seat.sender.send(START, desk.seat.replica, LeaderEpoch(6), [BrokerId(1)], "")
    desk.seat.sender.send(DELETE, desk.seat.replica, LeaderEpoch(6), [BrokerId(1), BrokerId(3)], "")
    await eventually(lambda: len(desk.seat.recorder.events) == 3)
    started = [event for event in desk.seat.recorder.events if event.command is START]
    assert [event.state for event in started] == [RequestState.REQUESTED, FAILED]
    assert "1 znodes" in started[-1].reason
    assert [change.command for change in await queued_for(desk, 3)] == [DELETE], "no other queue waits"
    desk.seat.tree.apply(Delete(f"{znodes.state_queue(1)}/request-0000000000"), owner=0)
    await eventually(lambda: len(desk.seat.recorder.events) == 4)
    assert [change.command for change in await queued_for(desk, 1)] == [DELETE]


async def test_requests_are_packed_by_number_and_by_size(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """CORRECTNESS Q4: few znodes, and in each there is room for the ends."""
    monkeypatch.setattr(sending, "REQUESTS_PER_ZNODE_MAX", 4)
    monkeypatch.setattr(sending, "STATE_ENTRY_BYTES_MAX", 2_000)
    await desk.seat.coordination.ensure_path(znodes.state_queue(1))
    for reason in ["short"] * 6 + ["long" * 400] * 2:
        desk.seat.sender.send(START, desk.seat.replica, LeaderEpoch(6), [BrokerId(1)], reason)
    await eventually(lambda: len(desk.seat.recorder.events) == 8)
    path = znodes.state_queue(1)
    sizes = [
        len(queue_znodes.load_state_changes(desk.seat.tree.nodes[f"{path}/{name}"].data))
        for name in sorted(desk.seat.tree.children(path))
    ]
    assert sizes == [4, 2, 1, 1]


# --- strays -------------------------------------------------------------------------------------------

CLUSTER = "this cluster"


async def compared(desk: Desk, *, cluster_id: str = CLUSTER) -> list[StateChangeEvent]:
    """What was told of strays."""
    seat = desk.seat
    await seat.coordination.ensure_path(znodes.CLUSTER_ID)
    desk.set(znodes.CLUSTER_ID, CLUSTER.encode())
    reconciler = Reconciler(seat.manager, seat.coordination, seat.receiver.executor, seat.recorder, CLOCK)
    assigned = await reconciler.read_assignments()
    await reconciler.remove_strays(assigned, cluster_id, LIVE[ME].epoch)
    return [event for event in seat.recorder.events if event.command is Happening.DELETE_STRAY]


async def test_what_is_assigned_is_no_stray(desk: Desk) -> None:
    assert await compared(desk) == []
    await desk.moves_away()
    assert await compared(desk) == [], "not before the reassignment is complete"
    await desk.asked(CLOSE)
    assert await compared(desk) == []
    assert state(desk.seat.replica) is ReplicaState.CLOSED


@pytest.mark.parametrize("how", ["gone", "another", "unassigned", "unassigned and closed"])
async def test_what_zookeeper_denies_is_a_stray(desk: Desk, how: str) -> None:
    """CORRECTNESS Q7: told, and gone from the disk."""
    folder = desk.seat.replica.log.directory
    if "closed" in how:
        await desk.moves_away()
        await desk.asked(CLOSE)
        await desk.stays()
    if how == "gone":
        for path in (ISR, znodes.replicas(*NAME), znodes.partition(*NAME), znodes.topic(NAME.topic)):
            desk.seat.tree.apply(Delete(path), owner=0)
    elif how == "another":
        desk.set(znodes.topic(NAME.topic), znodes.dump_topic(znodes.TopicNode(OTHER.topic_id, 1, {})))
    else:
        desk.seat.write(led_by(1, 1, 3, epoch=5))
        desk.assign(1, 3)
    (event,) = await compared(desk)
    assert (event.key, event.broker, event.state) == (KEY, ME, COMPLETED)
    assert not folder.exists()
    assert desk.seat.manager.get(KEY) is None


@pytest.mark.parametrize(
    "doubt", ["cluster", "set back", "creation", "in sync", "unreadable", "no partition"]
)
async def test_in_doubt_a_replica_stays(desk: Desk, doubt: str) -> None:
    """CORRECTNESS Q7: a log is not deleted because of something that could not be read."""
    desk.assign(1, 3)
    desk.seat.write(led_by(1, 1, 3, epoch=5))
    if doubt == "set back":
        write(desk.seat.replica, 6, "of an epoch that ZooKeeper has not come to")
    elif doubt == "creation":
        desk.set(znodes.topic(NAME.topic), znodes.dump_topic(znodes.TopicNode(KEY.topic_id, 0, {})))
    elif doubt == "in sync":
        desk.seat.write(led_by(1, 1, 2, 3, epoch=5))
    elif doubt == "unreadable":
        desk.set(znodes.topic(NAME.topic), b"{")
    elif doubt == "no partition":
        desk.seat.tree.apply(Delete(znodes.replicas(*NAME)), owner=0)
    cluster_id = "another cluster" if doubt == "cluster" else CLUSTER
    assert await compared(desk, cluster_id=cluster_id) == []
    assert desk.seat.manager.get(KEY) is desk.seat.replica


# --- who closes while it stands -----------------------------------------------------------------------


async def test_who_is_elected_after_it_was_closed_gives_the_epoch_up(desk: Desk) -> None:
    """CORRECTNESS E7: the claim was under way; nobody leads by record for ever who does not in fact."""
    taken, go_on = desk.seat.coordination.hold()
    desk.seat.elector.suspect(LIVE[BrokerId(1)].epoch)
    desk.seat.elector.vacant(desk.seat.replica)
    await taken.wait()
    desk.seat.manager.close_replica(desk.seat.replica)
    go_on.set()
    await eventually(lambda: desk.seat.resigned == [6])
    assert desk.seat.leads_in() is None


async def test_requests_for_a_later_life_stay_in_the_queue(desk: Desk) -> None:
    """CORRECTNESS E4."""
    later = StateChange(
        "later", DELETE, NAME.topic, OTHER, LeaderEpoch(5), BrokerId(1), 0, BrokerEpoch(LIVE[ME].epoch + 1)
    )
    await desk.queue(later)
    await desk.queue(request(START))
    await desk.seat.receiver.drain()
    await eventually(lambda: len(desk.seat.tree.children(QUEUE)) == 1)
    await asyncio.sleep(0)
    assert desk.ends(later) == []
