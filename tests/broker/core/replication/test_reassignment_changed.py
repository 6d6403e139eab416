"""Reassignment at the leader: replaced by another, cancelled, or removed; and replicas that are assigned
again.

Brokers 1 to 3 are the original AR and broker 1 leads, unless a test says otherwise.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.broker.core.replication.leader_partition import PAST_SUBSCRIPTIONS_MAX
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId
from strandline.vocabulary.metadata import PartitionState
from tests.broker.core.replication.moving_leader import EPOCH, Led, ids, members, moving

# --- replaced, cancelled, gone ------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["catching up", "closing"])
def test_another_rar_is_gone_to_instead(phase: str) -> None:
    """Decided on what the znode says now; what the first one added goes as everything of AR − RAR does."""
    led = Led(moving((1, 2, 3), (1, 4, 5)))
    led.fetch(4)
    if phase == "closing":
        led.fetch(5)
        assert led.closed == [ids(2, 3)]
    second = moving((1, 2, 3), (1, 2, 6))
    led.assign(replace(second, replicas=ids(1, 2, 3, 4, 5, 6), version=3))
    asked = len(led.closed)
    led.fetch(6)
    assert led.closed[asked:] == [ids(3, 4, 5)]
    led.stop_fetching(3, 4, 5)
    assert led.completed[0].assigned == ids(1, 2, 6)
    assert led.completed[0].removed == ids(3, 4, 5)


@pytest.mark.parametrize("caught_up", [(), (4,), (4, 5)])
def test_a_cancelled_reassignment_goes_back(caught_up: tuple[int, ...]) -> None:
    """From any stage: the added replicas are removed, and the original set need not be complete."""
    led = Led(moving((1, 2, 3), (1, 4, 5)))
    led.fetch(*caught_up)
    led.live_are(1, 2, 4, 5)  # 3 is dead
    led.assign(moving((1, 2, 3), (1, 4, 5), reverting=True))
    assert led.closed[-1] == ids(4, 5)
    led.stop_fetching(*caught_up)
    (done,) = led.completed
    assert set(done.state.isr_ids) == {1, 2}
    assert (done.assigned, done.removed, done.successor) == (ids(1, 2, 3), ids(4, 5), 1)


def test_a_cancelled_one_after_all_has_closed_waits_for_the_old_replicas() -> None:
    """CORRECTNESS H5: at least min in-sync of them, or writes would stop."""
    led = Led(moving((1, 2, 3), (1, 4, 5)))
    led.fetch(4, 5)
    led.live_are(1, 2, 3, 4)
    led.stop_fetching(2, 3)
    led.assign(moving((1, 2, 3), (1, 4, 5), reverting=True))
    asked = len(led.closed)
    assert (set(led.in_sync), led.completed) == ({1, 4}, [])
    led.fetch(2, subscription=1)
    assert led.closed[asked:] == [ids(4, 5)]
    led.stop_fetching(4)
    assert set(led.completed[0].state.isr_ids) == {1, 2}


def test_a_new_replica_that_leads_gives_it_back_when_all_is_cancelled() -> None:
    led = Led(moving((1, 2, 3), (4, 5), reverting=True), leader=4, isr=(4, 1, 2))
    led.turn()
    (done,) = led.completed
    assert done.state == PartitionState(NO_BROKER, EPOCH, members(1, 2))
    assert (done.removed, done.successor) == (ids(4, 5), 1)


def test_a_reassignment_that_is_gone_leaves_ar_as_it_says() -> None:
    """A replica that is no longer assigned leaves the ISR in ZooKeeper first, and does not count after that
    (H3, H4)."""
    led = Led(moving((1, 2), (1, 2, 4)), isr=(1, 2))
    led.fetch(4)
    done = len(led.completed)
    led.assign(PartitionAssignment(ids(1, 2), 9))
    assert led.in_sync == (1, 2)
    led.produce("a")
    led.fetch(2)
    assert led.acknowledged == ["a"]
    assert len(led.completed) == done


# --- replicas that are assigned again -----------------------------------------------------------


def test_a_replica_that_is_assigned_again_has_reported_no_position() -> None:
    """CORRECTNESS I2: a position from an earlier subscription may belong to a log that is gone."""
    led = Led(PartitionAssignment(ids(1, 2, 3), 0))
    led.assign(PartitionAssignment(ids(1, 2), 1))
    assert led.in_sync == ids(1, 2)
    led.assign(PartitionAssignment(ids(1, 2, 3), 2))
    assert led.core.outdated(BrokerId(3), BrokerEpoch(30), 0)
    led.fetch(3)
    assert led.in_sync == ids(1, 2)
    assert led.core.follower_end(BrokerId(3)) == -1
    assert not led.core.outdated(BrokerId(3), BrokerEpoch(30), 1)
    led.fetch(3, subscription=1)
    assert led.in_sync == ids(1, 2, 3)


def test_unassigned_brokers_are_remembered_within_a_bound() -> None:
    """CONTRIBUTING 7: any client may open a stream and claim to be broker 999."""
    led = Led(PartitionAssignment(ids(1, 2, 3), 0))
    for stranger in range(4, PAST_SUBSCRIPTIONS_MAX + 100):
        led.fetch(stranger)
    last = PAST_SUBSCRIPTIONS_MAX + 99
    led.assign(PartitionAssignment(ids(1, 2, 3, 4, last), 1))
    assert led.core.outdated(BrokerId(last), BrokerEpoch(last * 10), 0)
    assert not led.core.outdated(BrokerId(4), BrokerEpoch(40), 0)


def test_a_replica_assigned_again_before_it_left_the_isr_keeps_counting() -> None:
    """CORRECTNESS H3: it counts as long as ZooKeeper might elect it."""
    led = Led(PartitionAssignment(ids(1, 2, 3), 0))
    led.core.isr_writable = False
    led.assign(PartitionAssignment(ids(1, 2), 1))
    led.produce("a")
    led.fetch(2)
    assert led.acknowledged == []
    led.fetch(3)
    assert led.acknowledged == ["a"]
    led.assign(PartitionAssignment(ids(1, 2, 3), 2))
    led.core.isr_writable = True
    led.turn()
    assert set(led.in_sync) == {1, 2, 3}
