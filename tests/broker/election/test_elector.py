"""Elections against a ZooKeeper in memory: late notices, lost replies, races, leaders deposed unnoticed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes, queue_znodes, reassignment_znodes
from strandline.broker.core.election.traffic import IDLE_ISR_S, LOT_MAX
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.membership.confirmation import QUIET_S
from strandline.broker.replicas.replica import Replica
from strandline.ids import (
    NO_BROKER,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionId,
    PartitionKey,
    TopicPartition,
)
from strandline.ports import Create, Delete, SetData, Znode
from strandline.vocabulary.metadata import IsrMember, Reassignment
from strandline.vocabulary.state_changes import Command, StateChange
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.replicas import ASSIGNED, CLOCK, KEY, LIVE, NAME
from tests.broker.support.seat import ISR, LEADER, ME, Seat, led_by, seated
from tests.waiting import eventually


@pytest.fixture
async def seat(tmp_path: Path) -> AsyncIterator[Seat]:
    """All three brokers are alive, 1 leads in epoch 5 by what is written, 2 has noticed nothing yet."""
    async with seated(tmp_path) as found:
        yield found


def more_replicas(seat: Seat, partitions: int) -> list[Replica]:
    """Replicas of another topic; all are led by broker 1 in epoch 5."""
    (name,) = seat.tree.add_topics(1, partitions=partitions)
    replicas = []
    for number in range(partitions):
        record = isr_znodes.dump_isr(led_by(1, 1, 2, 3, epoch=5))
        seat.tree.nodes[znodes.isr(name, number)] = Znode(record, 0, 0, 0, 0)
        key = PartitionKey(KEY.topic_id, PartitionId(number + 1_000))
        replica = seat.manager.create(TopicPartition(name, number), key, TopicConfig())
        seat.manager.reconfigure(replica, PartitionAssignment(ASSIGNED), TopicConfig())
        replica.log.provenance.anchored = True  # the sync of each folder is not what is measured
        replicas.append(replica)
    return replicas


# --- a leader that missed its end -------------------------------------------------------------------


async def test_a_leader_that_was_deposed_unnoticed_learns_it_from_its_successor(seat: Seat) -> None:
    """CORRECTNESS E1, E6: on a partition without traffic it has no other way to learn of it, and it would
    answer reads with an old end of the log forever."""
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
    """CORRECTNESS E1: it is no longer a member of the ISR, so it waits, and does not lead meanwhile."""
    seat.lead(5)
    seat.write(led_by(3, 3, epoch=6))
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 3}
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.leads_in() is None)
    assert seat.record == led_by(3, 3, epoch=6)


async def test_a_notice_that_comes_during_the_claim_deposes_no_leader(seat: Seat) -> None:
    """The leader of record that exercises its leadership continues."""
    taken, go_on = seat.coordination.hold()
    seat.manager.peers.refused(LIVE[BrokerId(1)].epoch)
    seat.elector.vacant(seat.replica)
    await taken.wait()
    seat.elector.vacant(seat.replica)
    go_on.set()
    await eventually(lambda: seat.leads_in() == 6)
    await seat.looked(times=2)
    assert seat.leads_in() == 6


async def test_a_periodic_look_examines_no_partition_twice(seat: Seat) -> None:
    """Thousands of new partitions take longer than the pause between two looks, and each look added an
    examination of all that had no leader yet."""
    taken, go_on = seat.coordination.hold()
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
    seat.manager.peers.live_changed(seat.registration.live)
    await taken.wait()
    seat.elector.look_over(only_unnoticed=True)
    go_on.set()
    await eventually(lambda: seat.leads_in() == 6)
    for _ in range(10):
        await asyncio.sleep(0)
    assert seat.coordination.reads[ISR] == 1


async def test_thousands_of_vacancies_are_examined_a_bounded_number_at_a_time(seat: Seat) -> None:
    """After thousands of partitions were created, each was one more task in the same turn of the event loop,
    which sent no heartbeat for a second."""
    for replica in more_replicas(seat, LOT_MAX + 50):
        seat.elector.vacant(replica)
    await eventually(lambda: len(seat.followed) == LOT_MAX + 50)
    assert seat.coordination.most_in_flight == LOT_MAX


async def test_a_busy_partition_is_claimed_before_any_idle_one_is_looked_at(seat: Seat) -> None:
    """Its clients wait for the next acknowledgement, and for nothing of the others."""
    idle = more_replicas(seat, 50)
    seat.replica.traffic_at = CLOCK.monotonic()
    taken, go_on = seat.coordination.hold()
    for replica in (*idle, seat.replica):
        replica.leader = BrokerId(1)
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
    seat.manager.peers.live_changed(seat.registration.live)
    await taken.wait()
    assert seat.coordination.reads[ISR] == 1
    reads = [znodes.isr(*each.name) for each in idle]
    assert not any(seat.coordination.reads[path] for path in reads)
    go_on.set()
    await eventually(lambda: seat.leads_in() == 6)
    await eventually(lambda: all(seat.coordination.reads[path] for path in reads))


@pytest.mark.parametrize("busy", [True, False], ids=["busy", "idle"])
async def test_the_isr_of_an_idle_partition_changes_later_than_that_of_a_busy_one(
    seat: Seat, busy: bool
) -> None:
    """Thousands of idle partitions would delay the elections of those that clients wait for."""
    seat.lead(5)
    for _ in range(10):  # the first turn of the commit task
        await asyncio.sleep(0)
    began = CLOCK.monotonic()
    if busy:
        seat.replica.traffic_at = began
    seat.manager.peers.live_changed({b: r for b, r in LIVE.items() if b != 3})
    leadership = seat.replica.leadership
    assert leadership is not None
    assert leadership.core.isr.size_min() == (2 if busy else 3)  # a change is under way, or none
    await eventually(lambda: seat.record.isr_ids == (1, 2))
    assert busy or CLOCK.monotonic() - began >= IDLE_ISR_S


# --- suspicion ----------------------------------------------------------------------------------------


async def test_a_replica_that_waits_because_of_a_suspicion_follows_once_it_is_cleared(seat: Seat) -> None:
    """CORRECTNESS H10, T5: outside the ISR a suspect's follower may not stand; it must not wait forever."""
    seat.write(led_by(1, 1, 3, epoch=6))
    seat.manager.peers.refused(LIVE[BrokerId(1)].epoch)
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.replica.leader_epoch == 6)
    assert seat.followed == []
    seat.manager.peers.reached(LIVE[BrokerId(1)].epoch)
    await eventually(lambda: seat.followed == [(1, 6)])


async def test_a_suspect_is_deposed_and_leaves_the_isr(seat: Seat) -> None:
    """CORRECTNESS E1: the compare-and-set takes from it what it would need to commit."""
    await seat.coordination.create(LEADER, b"{}", ephemeral=True)
    seat.manager.peers.refused(LIVE[BrokerId(1)].epoch)
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.leads_in() == 6)
    assert seat.record == led_by(2, 2, 3, epoch=6)
    assert seat.replica.log.epochs.latest == 6  # T4: written before anything is appended


async def test_a_broker_that_is_cut_off_from_its_peers_takes_no_partition(seat: Seat) -> None:
    """CORRECTNESS H5, E1: it reaches ZooKeeper, and no other broker. It led every partition with an ISR of
    itself alone, and refused every record, while the others were well."""
    seat.silent.add(BrokerId(3))
    seat.manager.peers.refused(LIVE[BrokerId(1)].epoch)
    await seat.looked(times=3)
    assert seat.leads_in() is None
    assert seat.record == led_by(1, 1, 2, 3, epoch=5)
    seat.manager.peers.refused(LIVE[BrokerId(3)].epoch)
    await eventually(lambda: seat.replica.leader_epoch == 5)  # it waits, and asks no more
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
    seat.manager.peers.live_changed(seat.registration.live)
    await eventually(lambda: seat.leads_in() is not None)
    assert seat.record.isr_ids == (2,)


async def test_a_message_from_the_leader_during_the_probes_ends_the_candidacy(seat: Seat) -> None:
    """CORRECTNESS E1: what was decided on a suspicion is not done once it is over."""
    seat.words = [LIVE[BrokerId(1)].epoch]
    seat.manager.peers.refused(LIVE[BrokerId(1)].epoch)
    await eventually(lambda: seat.followed == [(1, 5)])
    assert seat.leads_in() is None
    assert seat.record == led_by(1, 1, 2, 3, epoch=5)


@pytest.mark.parametrize("how", ["suspected", "gone"])
async def test_no_replica_stands_while_the_leader_may_count_on_its_last_acknowledgement(
    seat: Seat, how: str
) -> None:
    """CORRECTNESS E1, G1: a leader takes an acknowledgement for a moment's proof that it leads; so a follower
    stops acknowledging, and lets that moment pass, before it takes the leader's place."""
    peers = seat.manager.peers
    peers.answered(BrokerId(1))
    answered = peers.answered_at(BrokerId(1))
    if how == "suspected":
        peers.refused(LIVE[BrokerId(1)].epoch)
    else:
        seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
        seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.coordination.multis)
    assert CLOCK.monotonic() >= answered + QUIET_S
    assert seat.unfollowed
    await eventually(lambda: seat.leads_in() == 6)


# --- what becomes of a claim --------------------------------------------------------------------------


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not-applied"])
async def test_a_claim_whose_reply_is_lost_is_made_again_in_another_epoch(seat: Seat, applied: bool) -> None:
    """CORRECTNESS I4, E7, E9: no broker leads in an epoch that it may or may not have won."""
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
    seat.coordination.lose(applied=applied)
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.leads_in() == 7)
    assert seat.record == led_by(2, 2, 3, epoch=7)


async def test_the_faster_candidate_is_followed(seat: Seat) -> None:
    """CORRECTNESS I3, E5: the claim is a compare-and-set on what it was decided on."""
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
    taken, go_on = seat.coordination.hold(SetData)  # of /epoch
    seat.elector.vacant(seat.replica)
    await taken.wait()
    seat.write(led_by(3, 2, 3, epoch=7))
    go_on.set()
    await eventually(lambda: seat.followed == [(3, 7)])
    assert seat.leads_in() is None
    assert LEADER not in seat.tree.nodes


async def test_a_claim_for_another_incarnation_of_the_topic_fails(seat: Seat) -> None:
    """CORRECTNESS Q1, E6: paths are the same and versions begin anew; the claim says which topic it means."""
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
    seat.tree.apply(Delete(znodes.topic_id(KEY.topic_id)), owner=0)
    before = seat.record
    seat.elector.vacant(seat.replica)
    await eventually(lambda: len(seat.coordination.multis) == 1)
    await seat.looked(times=1)
    assert seat.leads_in() is None
    assert seat.record == before
    seat.tree.apply(Create(znodes.topic_id(KEY.topic_id), b""), owner=0)
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.leads_in() is not None)
    assert len(seat.coordination.multis) == 2, "it was not tried again until it was noticed again"


async def test_each_follower_is_notified_by_its_queue(seat: Seat) -> None:
    """By epoch, `start-replica` to every other member of AR, dead ones too."""
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
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


async def test_no_broker_leads_by_an_outdated_assignment(seat: Seat) -> None:
    """CORRECTNESS E16: AR changed unnoticed: the claim is refused, AR is read again, and the next claim uses
    it. Broker 3 is no longer a replica, nor a member of the ISR."""
    path = znodes.replicas(*NAME)
    seat.manager.reconfigure(seat.replica, PartitionAssignment(ASSIGNED, 0), TopicConfig())
    seat.tree.apply(SetData(path, znodes.dump_replicas(ASSIGNED[:2]), -1), owner=0)
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.leads_in() == 7)
    assert seat.record == led_by(2, 2, epoch=7)
    assert seat.replica.assigned == ASSIGNED[:2]


async def test_every_elected_leader_continues_the_reassignment_in_zookeeper(seat: Seat) -> None:
    """CORRECTNESS E16, decided by ZooKeeper alone: the leader that began it may be dead."""
    await seat.coordination.ensure_path(znodes.reassigned_topic(NAME.topic))
    wanted = Reassignment(KEY.topic_id, (BrokerId(2), BrokerId(3), BrokerId(4)), ASSIGNED)
    seat.tree.apply(Create(znodes.reassigned(*NAME), reassignment_znodes.dump_reassignment(wanted)), owner=0)
    seat.manager.reconfigure(seat.replica, PartitionAssignment(ASSIGNED, 0), TopicConfig())
    seat.tree.apply(SetData(znodes.replicas(*NAME), znodes.dump_replicas(wanted.grown), -1), owner=0)
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.leads_in() == 7)
    assert seat.replica.reassignment == wanted
    assert seat.replica.assigned == wanted.grown


async def test_outside_the_isr_no_replica_stands(seat: Seat) -> None:
    """CORRECTNESS E2: unless unclean election is allowed, and its exact loss is reported."""
    seat.write(led_by(NO_BROKER, 1, epoch=5))
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
    seat.elector.vacant(seat.replica)
    await seat.looked(times=1)
    assert seat.leads_in() is None
    unclean = TopicConfig(unclean_leader_election_enable=True)
    seat.manager.reconfigure(seat.replica, PartitionAssignment(ASSIGNED), unclean)
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.leads_in() == 6)
    assert seat.record == led_by(2, 2, epoch=6)


async def test_a_life_that_lost_its_tail_does_not_stand(seat: Seat) -> None:
    """CORRECTNESS E2: the ISR names a life whose log is no more."""
    lost = replace(led_by(1, 1, epoch=5), isr=(IsrMember(ME, BrokerEpoch(3)),))
    seat.write(lost)
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
    seat.elector.vacant(seat.replica)
    await seat.looked(times=1)
    assert seat.leads_in() is None
    assert seat.record == lost


async def test_a_log_that_fails_as_it_is_elected_resigns(seat: Seat) -> None:
    """CORRECTNESS E14, T4: one bad disk costs one leadership; the broker and its other partitions
    continue."""
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.followed)
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
    for path in seat.replica.log.directory.iterdir():
        path.unlink()
    seat.replica.log.directory.rmdir()  # the epoch file has no place to go
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.resigned == [6])
    assert seat.leads_in() is None
    assert seat.replica.log.failed is not None


async def test_a_follower_whose_port_is_closed_leaves_at_once_and_returns_when_it_fetches(
    seat: Seat,
) -> None:
    """CORRECTNESS I6: its registration stays until its session ends, and commits do not wait for that. If it
    was alive after all, it comes back like any replica that has caught up."""
    seat.lead(5)
    life = seat.registration.live[BrokerId(3)].epoch

    def in_sync() -> tuple[int, ...]:
        return seat.record.isr_ids

    seat.manager.peers.refused(life)
    await asyncio.sleep(0)
    assert in_sync() == (1, 2, 3)  # it fetches: what refuses is between the two, or its port alone
    assert seat.replica.leadership is not None
    seat.replica.leadership.stopped_fetching(BrokerId(3), life, subscription=1)
    await eventually(lambda: in_sync() == (1, 2))
    await seat.coordination.create(znodes.broker(BrokerId(3)), b"registered still")
    seat.manager.peers.live_changed(dict(LIVE))
    await asyncio.sleep(0)
    assert in_sync() == (1, 2)
    seat.manager.peers.reached(life)
    seat.replica.leadership.fetched(BrokerId(3), life, 0, subscription=2)
    seat.replica.leadership.turn()
    await eventually(lambda: in_sync() == (1, 2, 3))
