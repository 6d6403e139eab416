"""Reassignment at the leader: checkReassignedReplicas and completePartitionReassignment of Kafka's design V3.

Brokers 1 to 3 are the original AR and broker 1 leads, unless a test says otherwise.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.broker.core.replication.reassignment import (
    PartitionAssignment,
    leaving,
    may_close,
    next_leader,
)
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId
from strandline.vocabulary.metadata import PartitionState
from tests.broker.core.replication.moving_leader import CLOSE_S, EPOCH, Led, alive, ids, members, moving

# --- the two branches ---------------------------------------------------------------------------


def test_a_leader_in_rar_completes_once_the_old_replicas_are_no_longer_in_sync() -> None:
    """Kafka's design V3, the second branch: every replica in AR − RAR is not in ISR anymore: complete,
    lead on."""
    led = Led(moving((1, 2, 3), (1, 4, 5)))
    led.fetch(4)
    assert led.closed == []  # 5 is not in sync yet (CORRECTNESS E16)
    led.fetch(5)
    assert led.closed == [ids(2, 3)]
    assert led.completed == []
    led.stop_fetching(2)
    assert led.completed == []
    led.stop_fetching(3)
    (done,) = led.completed
    assert done.state == PartitionState(BrokerId(1), EPOCH, members(1, 4, 5))
    assert (done.assigned, done.removed, done.successor) == (ids(1, 4, 5), ids(2, 3), 1)
    assert led.core.assignment == PartitionAssignment(ids(1, 4, 5), 2)


def test_a_leader_that_is_not_in_rar_completes_last_and_gives_the_leadership_up() -> None:
    """Kafka's design V3, the first branch: broker_id is in (AR − RAR) and the other replicas in it are not in
    ISR: complete, and stop leading. Every broker of AR − RAR loses its replica, the leader too."""
    led = Led(moving((1, 2, 3), (4, 5, 6)))
    led.fetch(4, 5, 6)
    assert led.closed == [ids(2, 3)]  # if r.broker_id != broker_id
    led.stop_fetching(2, 3)
    (done,) = led.completed
    assert done.state == PartitionState(NO_BROKER, EPOCH, members(4, 5, 6))
    assert (done.assigned, done.removed, done.successor) == (ids(4, 5, 6), ids(1, 2, 3), 4)


def test_a_leader_that_is_not_the_preferred_one_gives_the_leadership_up() -> None:
    """Kafka's design V3: stopCommitThread || broker_id is not preferred replica."""
    led = Led(moving((1, 2, 3), (4, 1, 2)))
    led.fetch(4)
    led.stop_fetching(3)
    (done,) = led.completed
    assert done.state == PartitionState(NO_BROKER, EPOCH, members(4, 1, 2))
    assert (done.removed, done.successor) == (ids(3), 4)


def test_another_order_of_the_same_replicas_closes_none() -> None:
    """Only the preferred replica changes: AR is written in its new order, and the leadership moves."""
    led = Led(moving((1, 2, 3), (2, 3, 1)))
    led.turn()
    (done,) = led.completed
    assert led.closed == []
    assert done.state == PartitionState(NO_BROKER, EPOCH, members(2, 3, 1))
    assert (done.assigned, done.removed, done.successor) == (ids(2, 3, 1), (), 2)


def test_an_order_that_begins_with_the_leader_costs_nothing() -> None:
    led = Led(moving((1, 2, 3), (1, 3, 2)))
    led.turn()
    (done,) = led.completed
    assert done.state == PartitionState(BrokerId(1), EPOCH, members(1, 3, 2))
    assert (led.closed, done.successor) == ([], 1)


@pytest.mark.parametrize("reverting", [False, True], ids=["forth", "back"])
def test_a_preferred_leader_that_shuts_down_is_given_nothing(reverting: bool) -> None:
    """CORRECTNESS I7: a leader that is in RAR leads on; the periodic check gives it up another time."""
    led = Led(moving((2, 1), (2, 1, 3), reverting=reverting), isr=(2, 1), held=True)
    led.completed.clear()
    led.core.isr_read(led.record, led.version)
    led.core.live_changed(alive(1, 2, 3, shutting_down=(2,)))
    led.fetch(3)
    (done,) = led.completed
    assert (done.successor, done.state.leader) == (1, 1)


def test_a_leader_outside_rar_waits_for_a_successor() -> None:
    """CORRECTNESS I7: the partition is not left to replicas that will be removed."""
    led = Led(moving((1,), (4, 5)), isr=(1,), min_insync=1)
    led.core.live_changed(alive(1, 4, 5, shutting_down=(4, 5)))
    led.fetch(4, 5)
    led.live_are(1, 4, 5)
    (done,) = led.completed
    assert done.successor == 4


# --- replicas that do not close ------------------------------------------------------------------


def still_fetching(led: Led, *brokers: int, for_s: float = CLOSE_S) -> None:
    """These fetch on, and have all there is."""
    for _ in range(10):
        led.now += for_s / 10
        led.fetch(*brokers, subscription=1)


def test_a_replica_that_does_not_close_is_left_out_after_a_while() -> None:
    """Kafka's design V3: wait until the replicas are closed or probably timeout and raise error. It leaves
    the ISR in ZooKeeper first, and the event of the completion names it."""
    led = Led(moving((1, 2, 3), (1, 4, 5)))
    led.fetch(4, 5)
    assert led.closed == [ids(2, 3)]
    led.stop_fetching(2)
    still_fetching(led, 3, for_s=CLOSE_S * 0.9)
    assert (led.cut_off, led.completed) == ([], [])
    still_fetching(led, 3, for_s=CLOSE_S * 0.2)
    assert led.cut_off == [ids(3)]
    (last,) = [write for write in led.writes if 3 in write.left]
    assert last.reason == "broker 3 did not close within 5 s"
    (done,) = led.completed
    assert done.state == PartitionState(BrokerId(1), EPOCH, members(1, 4, 5))
    assert (done.removed, done.reason) == (ids(2, 3), "broker 3 did not close within 5 s")


def test_a_leader_that_must_go_does_not_wait_forever_either() -> None:
    led = Led(moving((1, 2, 3), (4, 5, 6)))
    led.fetch(4, 5, 6)
    still_fetching(led, 2, 3, for_s=CLOSE_S * 1.1)
    (done,) = led.completed
    assert (led.cut_off, done.successor, done.state.isr_ids) == ([ids(2, 3)], 4, (4, 5, 6))


def test_the_turn_at_which_it_is_left_out_comes_by_itself() -> None:
    led = Led(moving((1, 2), (1, 4)), isr=(1, 2))
    led.fetch(4)
    due = led.core.next_wakeup()
    assert due == CLOSE_S
    led.now = due
    led.turn()
    assert led.cut_off == [ids(2)]
    assert len(led.completed) == 1


def test_a_replica_that_was_cut_off_is_not_served_and_does_not_hold_the_watermark() -> None:
    """Its flow is over, and so is each that it begins, until the partition is to have it again."""
    led = Led(moving((1, 2), (1, 4)), isr=(1, 2))
    led.fetch(4)
    still_fetching(led, 2, for_s=CLOSE_S * 1.1)
    for subscription in (1, 2):
        assert led.core.outdated(BrokerId(2), BrokerEpoch(20), subscription)
    led.produce("a")
    led.fetch(4)
    assert led.acknowledged == ["a"]
    led.assign(moving((1, 4), (1, 2)))
    assert not led.core.outdated(BrokerId(2), BrokerEpoch(20), 2)
    led.fetch(2, subscription=2)
    assert led.in_sync == (1, 4, 2)


def test_no_replica_is_left_out_while_a_new_one_is_not_in_sync() -> None:
    """CORRECTNESS E16: the partition cannot do without it then."""
    led = Led(moving((1, 2), (1, 4)), isr=(1, 2))
    led.fetch(4)
    led.live_are(1, 2)
    assert led.in_sync == (1, 2)
    still_fetching(led, 2, for_s=CLOSE_S * 2)
    assert (led.cut_off, led.completed, led.in_sync) == ([], [], (1, 2))


def test_another_target_restarts_the_time_to_close() -> None:
    """A retry is possible: also with a replica that was left out the first time."""
    led = Led(moving((1, 2), (1, 4)), isr=(1, 2), held=True)
    led.fetch(4)
    still_fetching(led, 2, for_s=CLOSE_S * 1.1)
    assert led.cut_off == [ids(2)]
    led.core.isr_read(led.record, led.version)
    led.assign(replace(moving((1, 2), (1, 4)), reassignment_version=7))
    assert not led.core.outdated(BrokerId(2), BrokerEpoch(20), 3)


# --- growing and shrinking ----------------------------------------------------------------------


def test_more_replicas_of_the_same_leader_need_no_close() -> None:
    """RF 1 → 3; min in-sync is measured by the smaller of both until it is over (CORRECTNESS I11)."""
    growing = moving((1,), (1, 2, 3))
    assert growing.replication_factor == 1
    led = Led(growing, isr=(1,), min_insync=1)
    led.produce("a")
    assert led.acknowledged == ["a"]
    led.fetch(2)
    assert led.completed == []
    led.fetch(3)
    (done,) = led.completed
    assert (led.closed, done.removed, done.state.isr_ids) == ([], (), (1, 2, 3))


def test_a_smaller_replication_factor_closes_the_removed_replicas() -> None:
    """RF 3 → 1, to one that does not lead."""
    shrinking = moving((1, 2, 3), (3,))
    assert shrinking.replication_factor == 1
    led = Led(shrinking, min_insync=1)
    led.turn()
    assert led.closed == [ids(2)]
    led.stop_fetching(2)
    (done,) = led.completed
    assert done.state == PartitionState(NO_BROKER, EPOCH, members(3))
    assert (done.removed, done.successor) == (ids(1, 2), 3)


def test_records_written_meanwhile_need_the_new_replicas_once_they_are_in_sync() -> None:
    """CORRECTNESS H3: from the moment that they are proposed."""
    led = Led(moving((1, 2, 3), (1, 2, 4)))
    led.fetch(4)
    led.produce("a")
    led.fetch(2, 3)
    assert led.acknowledged == []
    led.fetch(4)
    assert led.acknowledged == ["a"]


# --- deaths -------------------------------------------------------------------------------------


def test_dead_old_replicas_hold_nothing_up() -> None:
    """They are asked to close as the others are, and lose their replica when they return (Q2)."""
    led = Led(moving((1, 2, 3), (1, 4)), isr=(1,))
    led.live_are(1, 4)
    led.fetch(4)
    (done,) = led.completed
    assert led.closed == [ids(2, 3)]
    assert done.removed == ids(2, 3)


def test_an_old_replica_that_dies_while_it_is_to_close_leaves_and_holds_nothing_up() -> None:
    led = Led(moving((1, 2, 3), (1, 3, 4)))
    led.fetch(4)
    assert led.completed == []
    led.live_are(1, 3, 4)
    assert len(led.completed) == 1


def test_a_new_replica_that_is_dead_is_waited_for() -> None:
    """CORRECTNESS E16: complete only if all targets are in the ISR."""
    led = Led(moving((1, 2, 3), (1, 4, 5)))
    led.live_are(1, 2, 3, 4)
    led.fetch(4)
    led.wait()
    led.fetch(2, 3, 4)
    assert (led.closed, led.completed) == ([], [])
    assert set(led.in_sync) == {1, 2, 3, 4}


def test_a_new_replica_that_falls_out_while_the_old_ones_close_is_waited_for() -> None:
    """No replica that was asked to close comes back meanwhile; each is asked once."""
    led = Led(moving((1, 2, 3), (1, 4, 5)))
    led.fetch(4, 5)
    led.live_are(1, 2, 3, 4)
    led.stop_fetching(2, 3)
    assert (led.in_sync, led.completed) == ((1, 4), [])
    led.fetch(2, 3, subscription=1)
    assert led.in_sync == (1, 4)
    led.live_are(1, 2, 3, 4, 5)
    led.fetch(5, subscription=1)
    assert led.closed == [ids(2, 3)]
    assert led.completed[0].state.isr_ids == (1, 4, 5)


def test_a_later_leader_asks_again() -> None:
    """It does not know whether the one before did; a request that was there does no harm (E13)."""
    led = Led(moving((1, 2, 3), (1, 4, 5)), leader=4, isr=(4, 5, 1, 3))
    led.turn()
    assert led.closed == [ids(2, 3)]
    led.stop_fetching(3)
    (done,) = led.completed
    assert done.state == PartitionState(NO_BROKER, EPOCH, members(1, 4, 5))
    assert (done.removed, done.successor) == (ids(2, 3), 1)


def test_a_request_that_could_not_be_sent_is_sent_again() -> None:
    led = Led(moving((1, 2, 3), (1, 4)))
    led.fetch(4)
    led.core.close_again()
    led.turn()
    assert led.closed == [ids(2, 3), ids(2, 3)]


# --- drained first ------------------------------------------------------------------------------


def test_a_leadership_is_given_up_only_when_all_that_was_accepted_is_committed() -> None:
    """A handover drains the commit queue first, so no producer sees an error."""
    led = Led(moving((1, 2), (3, 2)), isr=(1, 2))
    led.produce("a")
    led.fetch(3, end=led.end)
    assert led.core.handing_over
    assert (led.acknowledged, led.completed) == ([], [])
    led.fetch(2)
    assert led.acknowledged == ["a"]
    assert led.completed[0].successor == 3
    assert led.core.handing_over  # nothing is accepted that could not be committed


def test_a_leadership_is_given_up_only_to_a_replica_that_has_shown_its_log() -> None:
    """CORRECTNESS E18: a new topic's member may have no log yet. If it began one in its next life, it could
    not lead with it, and neither could the leader, which would have left the ISR."""
    led = Led(moving((1, 2, 3), (2, 3)), silent=(2,), min_insync=1)
    led.turn()
    assert led.completed == []
    led.fetch(2)
    assert led.completed[0].successor == 2


def test_a_leader_that_cannot_give_up_accepts_again() -> None:
    """A replica that it needs for the handover fell behind: the leader does not wait for that."""
    led = Led(moving((1, 2), (3, 2)), isr=(1, 2))
    led.produce("a")
    led.fetch(3, end=led.end)
    assert led.core.handing_over
    led.wait()
    assert led.in_sync == (1, 3) or not led.core.handing_over
    led.turn()
    assert not led.core.handing_over
    led.produce("b")
    assert led.completed == []


def test_a_leader_that_stays_continues_to_accept() -> None:
    led = Led(moving((1, 2), (1, 3)), isr=(1, 2), held=True)
    led.fetch(3)
    led.stop_fetching(2)
    assert len(led.completed) == 1
    assert not led.core.handing_over
    led.produce("a")
    led.fetch(3)
    assert led.acknowledged == ["a"]


# --- one write at a time ------------------------------------------------------------------------


def test_nothing_else_is_written_while_the_completion_is_under_way() -> None:
    """CORRECTNESS I5: it is a change of the ISR as any other, and both memberships count (H3)."""
    led = Led(moving((1, 2), (1, 3)), isr=(1, 2), held=True)
    led.fetch(3)
    led.stop_fetching(2)
    writes = len(led.writes)
    led.live_are(1)
    led.wait()
    assert len(led.writes) == writes
    assert len(led.completed) == 1
    led.complete(led.completed[0].state, led.completed[0].assigned)
    assert led.in_sync == (1,)


def test_a_completion_that_was_not_written_is_decided_again() -> None:
    """From what ZooKeeper has: nothing, or another reassignment (CORRECTNESS I4, E7)."""
    led = Led(moving((1, 2), (3, 2)), isr=(1, 2), held=True)
    led.fetch(3)
    assert len(led.completed) == 1
    assert led.core.isr_read(led.record, led.version) is None
    assert not led.core.handing_over
    led.assign(led.assignment)
    assert len(led.completed) == 2


def test_while_zookeeper_is_away_nothing_moves() -> None:
    """And nothing is refused because of it."""
    led = Led(moving((1, 2), (3, 2)), isr=(1, 2))
    led.core.isr_writable = False
    led.fetch(3)
    assert (led.closed, led.completed, led.core.handing_over) == ([], [], False)


# --- the parts ----------------------------------------------------------------------------------


def test_an_assignment_read_earlier_is_older_though_it_arrives_later() -> None:
    begun = moving((1, 2), (2, 3))
    assert PartitionAssignment(ids(1, 2), 0).older_than(begun)
    assert not begun.older_than(PartitionAssignment(ids(1, 2), 0))
    cancelled = replace(begun, reassignment_mzxid=9)
    assert replace(begun, reassignment_mzxid=8).older_than(cancelled)
    assert not cancelled.older_than(begun)
    assert not cancelled.older_than(cancelled)


def test_an_unassigned_leader_leaves_too() -> None:
    assert leaving(BrokerId(9), moving((1, 2), (2, 3))) == ids(1, 9)
    assert leaving(BrokerId(1), PartitionAssignment(ids(1, 2), 0)) == ()


def test_going_back_takes_one_in_sync_at_least() -> None:
    """CORRECTNESS I8: an ISR is never empty, for any min.insync.replicas."""
    wanted = moving((1, 2), (3, 4), reverting=True).reassignment
    assert wanted is not None
    assert not may_close(wanted, ids(3, 4), 0)
    assert may_close(wanted, ids(2, 3, 4), 1)
    assert not may_close(wanted, ids(2, 3, 4), 2)


def test_another_life_is_no_successor() -> None:
    """CORRECTNESS E4: a broker that came back is not the member that is listed."""
    live = alive(1, 2, 3)
    live[BrokerId(2)] = replace(live[BrokerId(2)], epoch=BrokerEpoch(99))
    assert next_leader(BrokerId(1), ids(2, 3), members(2, 3), live) == 3
