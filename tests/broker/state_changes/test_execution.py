"""Requests from a queue in memory, executed on real logs. The state in ZooKeeper decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import queue_znodes
from strandline.broker.core.replication.replica_states import ReplicaState
from strandline.broker.facts.assignments import Assignments
from strandline.errors import NotLeaderOrFollower, UnknownTopicOrPartition
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, PartitionId
from strandline.ports import Delete, SetData
from strandline.vocabulary.metadata import PartitionState, Registration
from strandline.vocabulary.state_changes import Command, RequestState, StateChange
from tests.broker.support.queue_bench import (
    CLOSE,
    COMPLETED,
    DELETE,
    FAILED,
    OTHER,
    QUEUE,
    START,
    SUPERSEDED,
    QueueBench,
    request,
    state,
)
from tests.broker.support.replicas import ASSIGNED, KEY, LIVE, NAME, values, write
from tests.broker.support.seat import ME, led_by, seated
from tests.waiting import eventually

P = ParamSpec("P")
T = TypeVar("T")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[QueueBench]:
    async with seated(tmp_path) as seat:
        yield QueueBench(seat)


# --- start --------------------------------------------------------------------------------------------


async def test_a_request_is_recorded_from_its_beginning_to_its_end(bench: QueueBench) -> None:
    """Kafka's design V2, goal 7: requested, received, completed; nothing of it is left in the queue."""
    await bench.asked(START)
    assert [event.state for event in bench.seat.recorder.events] == [
        RequestState.REQUESTED,
        RequestState.RECEIVED,
        COMPLETED,
    ]


@pytest.mark.parametrize("command", [START, CLOSE])
async def test_requests_for_another_incarnation_are_not_executed(bench: QueueBench, command: Command) -> None:
    """CORRECTNESS Q1."""
    end = await bench.asked(command, key=OTHER)
    assert end.state is SUPERSEDED
    assert "incarnation" in end.reason
    assert bench.seat.manager.get(OTHER) is None


@pytest.mark.parametrize("by_request", [True, False])
async def test_a_topic_that_was_read_too_early_takes_no_name_over(
    bench: QueueBench, by_request: bool
) -> None:
    """CORRECTNESS Q1: it is deleted, and its successor is here, when its assignment is read. The successor's
    leader would get no request before the next comparison with ZooKeeper."""
    manager, executor = bench.seat.manager, bench.seat.receiver.executor
    old = znodes.TopicNode(OTHER.topic_id, 1, {})
    assignments = await Assignments.listed(bench.seat.coordination)
    if by_request:
        end = await executor.execute(request(START, key=OTHER), old, assignments)
        assert end.state is SUPERSEDED
    else:
        assert await executor.ensure_replica(NAME.topic, old, assignments, 0) is None
    assert manager.get(OTHER) is None
    assert manager.named(*NAME) is bench.seat.replica


async def test_a_request_of_an_old_epoch_is_superseded(bench: QueueBench) -> None:
    """CORRECTNESS E6: also if only another request showed the later epoch."""
    assert (await bench.asked(START, epoch=9)).state is COMPLETED
    end = await bench.asked(CLOSE, epoch=8)
    assert (end.state, end.reason) == (SUPERSEDED, "epoch 9 is known here, and 8 is over")


async def test_a_replica_that_zookeeper_does_not_assign_is_not_started(bench: QueueBench) -> None:
    """CORRECTNESS Q7: the request is a hint."""
    bench.assign(1, 3)
    end = await bench.asked(START)
    assert (end.state, end.reason) == (SUPERSEDED, "the replica is not assigned to this broker")


async def test_a_disk_that_takes_nothing_fails_the_request_and_not_the_broker(
    bench: QueueBench, tmp_path: Path
) -> None:
    """CORRECTNESS Q5: it is visible, with its reason."""
    second = KEY._replace(partition=PartitionId(1))
    topic = znodes.TopicNode(KEY.topic_id, 2, {})
    bench.set(znodes.topic(NAME.topic), znodes.dump_topic(topic))
    await bench.seat.coordination.ensure_path(znodes.replicas(NAME.topic, 1))
    bench.set(znodes.replicas(NAME.topic, 1), znodes.dump_replicas(ASSIGNED))
    in_the_way = bench.seat.manager.folder.path / f"{NAME.topic}-1-{KEY.topic_id}"
    in_the_way.write_text("a file")
    end = await bench.asked(START, key=second)
    assert end.state is FAILED
    assert "File exists" in end.reason
    in_the_way.unlink()
    assert (await bench.asked(START, key=second)).state is COMPLETED


# --- close --------------------------------------------------------------------------------------------


async def test_a_closed_replica_answers_as_one_that_does_not_lead_and_keeps_its_log(
    bench: QueueBench,
) -> None:
    """Kafka's design V3, close-replica: nothing fetches or serves, the log stays, and it can be had again."""
    replica = bench.seat.replica
    write(replica, 5, "a", "b")
    await bench.moves_away()
    assert (await bench.asked(CLOSE)).state is COMPLETED
    assert state(replica) is ReplicaState.CLOSED
    assert bench.seat.manager.get(KEY) is None
    with pytest.raises(NotLeaderOrFollower):
        bench.seat.manager.named(*NAME)
    with pytest.raises(NotLeaderOrFollower):
        bench.seat.manager.known(KEY, NAME.topic)
    assert (await bench.asked(START, requester=NO_BROKER)).state is COMPLETED
    assert state(replica) is ReplicaState.CLOSED, "the controller's says to read again, and it is still to go"
    assert (await bench.asked(START, epoch=6)).state is COMPLETED
    assert state(replica) is ReplicaState.FOLLOWER, "a leader wants it"
    assert bench.seat.manager.named(*NAME) is replica
    assert values(replica) == ["a", "b"]


async def test_a_cancelled_reassignment_reopens_the_closed_replica(bench: QueueBench) -> None:
    """CORRECTNESS E16, Q7."""
    await bench.moves_away()
    await bench.asked(CLOSE)
    await bench.stays()
    await bench.asked(START, requester=NO_BROKER)
    assert state(bench.seat.replica) is ReplicaState.FOLLOWER


async def test_a_replica_that_is_to_stay_is_not_closed(bench: QueueBench) -> None:
    """CORRECTNESS Q6: the leader that asked died, and what it wanted was cancelled."""
    end = await bench.asked(CLOSE)
    assert (end.state, end.reason) == (SUPERSEDED, "the replica is to stay on this broker")
    assert state(bench.seat.replica) is ReplicaState.FOLLOWER


async def test_a_close_of_an_epoch_that_is_over_closes_nothing(bench: QueueBench) -> None:
    """CORRECTNESS E6: by what is written, if this broker has not heard of it yet."""
    await bench.moves_away()
    bench.seat.write(led_by(3, 1, 3, epoch=6))
    end = await bench.asked(CLOSE)
    assert (end.state, end.reason) == (SUPERSEDED, "epoch 6 has begun")


async def test_a_leader_refuses_to_close_with_the_reason(bench: QueueBench) -> None:
    """An illegal transition is visible with its values, and costs the broker nothing."""
    bench.seat.lead(5)
    await bench.moves_away()
    end = await bench.asked(CLOSE, requester=ME)
    assert end.state is FAILED
    assert "leader → closing is illegal: it leads in epoch 5" in end.reason
    assert bench.seat.leads_in() == 5


@pytest.mark.parametrize(
    ("record", "live"),
    [
        (led_by(NO_BROKER, 1, 2, 3, epoch=5), LIVE),
        (led_by(3, 1, 2, 3, epoch=5), LIVE),
        (led_by(1, 1, 2, 3, epoch=5), {b: LIVE[b] for b in LIVE if b != 1}),
        (
            led_by(1, 1, 2, 3, epoch=5),
            LIVE | {BrokerId(1): replace(LIVE[BrokerId(1)], epoch=BrokerEpoch(11))},
        ),
    ],
    ids=["it resigned", "another leads", "it is gone", "it came back in another life"],
)
async def test_a_close_of_a_leader_that_no_longer_leads_closes_nothing(
    bench: QueueBench, record: PartitionState, live: dict[BrokerId, Registration]
) -> None:
    """CORRECTNESS Q8: the partition may wait for what this log has."""
    await bench.moves_away()
    bench.seat.write(record)
    bench.seat.manager.peers.live_changed(live)
    end = await bench.asked(CLOSE)
    assert (end.state, end.reason) == (SUPERSEDED, "broker 1 does not lead in epoch 5 any longer")
    assert state(bench.seat.replica) is ReplicaState.FOLLOWER


async def test_a_replica_that_follows_another_leader_before_it_is_closed_stays_open(
    bench: QueueBench,
) -> None:
    """CORRECTNESS E6: while its log is synced, the next leader begins."""
    await bench.moves_away()
    manager = bench.seat.manager

    class Threads:
        async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
            manager.follow(bench.seat.replica, BrokerId(3), LeaderEpoch(6))
            return function(*args, **kwargs)

    manager.host = replace(manager.host, threads=Threads())
    end = await bench.asked(CLOSE)
    assert (end.state, end.reason) == (SUPERSEDED, "epoch 6 is known here, and 5 is over")
    assert state(bench.seat.replica) is ReplicaState.FOLLOWER


async def test_a_closed_replica_opens_again_if_no_leader_stands(bench: QueueBench) -> None:
    """CORRECTNESS Q8: its leader died after it closed. It is in sync, and may be the only one that can
    lead."""
    await bench.moves_away()
    assert (await bench.asked(CLOSE)).state is COMPLETED
    bench.seat.write(led_by(NO_BROKER, 1, 2, 3, epoch=5))
    assert (await bench.asked(START, requester=NO_BROKER)).state is COMPLETED
    await eventually(lambda: bench.seat.leads_in() == 6)


async def test_a_closed_replica_whose_leader_is_gone_is_found_without_a_request(bench: QueueBench) -> None:
    """CORRECTNESS Q7, Q8: by the comparison with ZooKeeper."""
    await bench.moves_away()
    await bench.asked(CLOSE)
    executor, node = bench.seat.receiver.executor, znodes.TopicNode(KEY.topic_id, 1, {})
    for record, found in [
        (led_by(1, 1, 2, 3, epoch=5), ReplicaState.CLOSED),
        (led_by(NO_BROKER, 1, 2, 3, epoch=4), ReplicaState.CLOSED),  # older than what is known here
        (led_by(NO_BROKER, 1, 2, 3, epoch=5), ReplicaState.FOLLOWER),
    ]:
        bench.seat.write(record)
        assignments = await Assignments.listed(bench.seat.coordination)
        assert await executor.ensure_replica(NAME.topic, node, assignments, 0) == KEY
        assert state(bench.seat.replica) is found


async def test_closing_a_missing_replica_is_done(bench: QueueBench) -> None:
    """CORRECTNESS Q2: the second time changes nothing."""
    await bench.moves_away()
    await bench.asked(CLOSE)
    assert (await bench.asked(CLOSE)).reason == "it was closed"
    bench.assign(1, 4, 3)
    await bench.asked(DELETE)
    assert (await bench.asked(CLOSE)).reason == "it was not here"


# --- delete -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", [False, True])
async def test_a_deletion_takes_the_log_closed_or_not(bench: QueueBench, closed: bool) -> None:
    replica = bench.seat.replica
    folder = replica.log.directory
    await bench.moves_away()
    if closed:
        await bench.asked(CLOSE)
    bench.assign(1, 4, 3)
    assert (await bench.asked(DELETE)).state is COMPLETED
    assert state(replica) is ReplicaState.DELETED
    assert list(folder.parent.glob(f"{NAME.topic}*")) == list(folder.parent.glob("*.deleted")) == []
    with pytest.raises(UnknownTopicOrPartition):
        bench.seat.manager.named(*NAME)
    assert (await bench.asked(DELETE)).reason == "it was not here"


async def test_the_new_incarnation_survives_the_deletion_of_the_old_one(bench: QueueBench) -> None:
    """CORRECTNESS Q1: queued for a dead broker, executed when the name is another topic's."""
    node = znodes.TopicNode(OTHER.topic_id, 1, {})
    bench.set(znodes.topic(NAME.topic), znodes.dump_topic(node))
    await bench.queue(request(DELETE), request(START, requester=NO_BROKER, key=OTHER))
    await bench.drained()
    new = bench.seat.manager.named(*NAME)
    assert (new.key, bench.seat.manager.get(KEY)) == (OTHER, None)
    assert new.log.directory.exists()
    assert not bench.seat.replica.log.directory.exists()


async def test_a_replica_that_is_assigned_again_is_not_deleted(bench: QueueBench) -> None:
    """CORRECTNESS Q7: a member of the ISR must not lose its log because of an old request."""
    end = await bench.asked(DELETE)
    assert (end.state, end.reason) == (SUPERSEDED, "the replica is assigned to this broker again")
    assert state(bench.seat.replica) is ReplicaState.FOLLOWER


async def test_a_topic_that_cannot_be_read_deletes_nothing(bench: QueueBench) -> None:
    """CORRECTNESS Q7: what is not known is not denied."""
    bench.set(znodes.topic(NAME.topic), b"{")
    assert (await bench.asked(DELETE)).state is FAILED
    assert state(bench.seat.replica) is ReplicaState.FOLLOWER


# --- the znodes of the queue --------------------------------------------------------------------------


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("write_kind", [SetData, Delete])
async def test_a_request_ends_though_a_connection_was_lost_under_a_write(
    bench: QueueBench, write_kind: type[SetData] | type[Delete], applied: bool
) -> None:
    """CORRECTNESS E9: the outcome is unknown, so it is looked at. That it ends once is for
    `test_state_change_walk` to see, in which others write meanwhile."""
    bench.seat.coordination.lose(write_kind, applied=applied)
    assert (await bench.asked(START)).state is COMPLETED


async def test_an_entry_waits_in_the_queue_until_it_is_recorded(bench: QueueBench) -> None:
    """The request is decided and not recorded: the znode keeps both, and execution waits for neither."""
    bench.seat.recorder.silent = True
    change = request(START)
    await bench.queue(change)
    await bench.seat.receiver.drain()
    (entry,) = bench.seat.tree.children(QUEUE)

    def queued() -> StateChange:
        (found,) = queue_znodes.load_state_changes(bench.seat.tree.nodes[f"{QUEUE}/{entry}"].data)
        return found

    await eventually(lambda: queued().end is not None and bench.seat.recorder.waiting)
    bench.seat.recorder.answer(recorded=False)
    bench.seat.receiver.look_again()
    await eventually(lambda: bench.seat.recorder.waiting)
    assert bench.seat.tree.children(QUEUE) == [entry]
    bench.seat.recorder.answer(recorded=True)
    await eventually(lambda: bench.seat.tree.children(QUEUE) == [])
    assert len({(event.state, event.at_ms) for event in bench.ends(change)}) == 1


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'[{"id": "x"}]', b'{"a": 1}', b'["x"]', b"7"])
async def test_unreadable_files_are_removed_and_block_nothing(bench: QueueBench, data: bytes) -> None:
    await bench.seat.coordination.create(znodes.state_entry_prefix(ME), data, sequential=True)
    assert (await bench.asked(START)).state is COMPLETED


# --- replicas that close while they stand -------------------------------------------------------------


async def test_a_replica_that_is_elected_after_it_was_closed_resigns_the_epoch(bench: QueueBench) -> None:
    """CORRECTNESS E7: the claim was in flight; no broker may stay the leader of record without leading."""
    taken, go_on = bench.seat.coordination.hold()
    bench.seat.manager.peers.refused(LIVE[BrokerId(1)].epoch)
    bench.seat.elector.vacant(bench.seat.replica)
    await taken.wait()
    bench.seat.manager.close_replica(bench.seat.replica)
    go_on.set()
    await eventually(lambda: bench.seat.resigned == [6])
    assert bench.seat.leads_in() is None


async def test_requests_for_a_later_life_stay_in_the_queue(bench: QueueBench) -> None:
    """CORRECTNESS E4."""
    later = StateChange(
        "later", DELETE, NAME.topic, OTHER, LeaderEpoch(5), BrokerId(1), 0, BrokerEpoch(LIVE[ME].epoch + 1)
    )
    await bench.queue(later)
    await bench.queue(request(START))
    await bench.seat.receiver.drain()
    await eventually(lambda: len(bench.seat.tree.children(QUEUE)) == 1)
    await asyncio.sleep(0)
    assert bench.ends(later) == []
