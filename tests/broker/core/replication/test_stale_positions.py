"""The messages of a broken stream may be read long after another one was opened: they are old by then.

CORRECTNESS I2, I6: a position belongs to the life, and to the subscription, that reported it last.
"""

from __future__ import annotations

import pytest

from strandline.broker.core.replication.effects import WriteIsr
from strandline.broker.core.replication.leader_partition import LeaderPartition
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from strandline.vocabulary.metadata import Endpoint, IsrMember, Registration

ME, OTHER = BrokerId(1), BrokerId(2)
FIRST_LIFE, SECOND_LIFE = BrokerEpoch(20), BrokerEpoch(21)


@pytest.fixture
def partition() -> LeaderPartition[str]:
    """Led by 1 with ten records; 2 is outside the ISR, in its second life."""
    return LeaderPartition(
        me=ME,
        epoch=LeaderEpoch(7),
        log_end_offset=Offset(10),
        high_watermark=Offset(5),
        assignment=PartitionAssignment((ME, OTHER)),
        members=(IsrMember(ME, BrokerEpoch(10)),),
        version=0,
        live={
            ME: Registration(Endpoint(1, "h", 1), BrokerEpoch(10)),
            OTHER: Registration(Endpoint(2, "h", 1), SECOND_LIFE),
        },
        min_insync=2,
        keep_in_sync_s=1.0,
        close_s=60,
        queue_entries_max=10,
        now=0.0,
    )


def test_a_position_of_an_earlier_life_does_not_count_for_the_present_one(
    partition: LeaderPartition[str],
) -> None:
    """CORRECTNESS I6: the life that had ten records lost its power; the next one has five of them."""
    partition.fetched(OTHER, SECOND_LIFE, Offset(5), 0.0, subscription=1)
    partition.fetched(OTHER, FIRST_LIFE, Offset(10), 0.0, subscription=9)
    assert partition.follower_end(OTHER) == 5
    assert partition.step(0.0) == []  # neither joins it the ISR nor moves the HW


def test_a_position_of_an_older_subscription_does_not_set_the_follower_back(
    partition: LeaderPartition[str],
) -> None:
    """CORRECTNESS I2, H10: a follower that has every record reports no more: it would seem late forever."""
    partition.fetched(OTHER, SECOND_LIFE, Offset(10), 0.0, subscription=2)
    partition.fetched(OTHER, SECOND_LIFE, Offset(3), 0.0, subscription=1)
    assert partition.follower_end(OTHER) == 10


def test_the_end_of_an_older_stream_does_not_stop_a_younger_one(partition: LeaderPartition[str]) -> None:
    """CORRECTNESS H10: a follower that has everything was taken for one that does not fetch, until the next
    record; below min.insync.replicas none is ever accepted."""
    partition.fetched(OTHER, SECOND_LIFE, Offset(10), 0.0, subscription=1)
    partition.fetched(OTHER, SECOND_LIFE, Offset(10), 0.0, subscription=2)
    partition.stopped_fetching(OTHER, SECOND_LIFE, 0.0, subscription=1)
    assert partition.catching_up == (OTHER,)
    (write,) = partition.step(0.0)
    assert isinstance(write, WriteIsr)
    assert write.joined == (OTHER,)


def test_a_member_that_stops_fetching_is_late_though_nothing_is_appended(
    partition: LeaderPartition[str],
) -> None:
    """CORRECTNESS E14: its log may have failed. One that asks again in time stays."""
    partition.fetched(OTHER, SECOND_LIFE, Offset(10), 0.0, subscription=1)
    (joining,) = partition.step(0.0)
    assert isinstance(joining, WriteIsr)
    partition.isr_read(joining.state, 1)
    partition.step(0.0)
    partition.stopped_fetching(OTHER, SECOND_LIFE, 1.0, subscription=1)
    partition.fetched(OTHER, SECOND_LIFE, Offset(10), 1.5, subscription=2)
    assert partition.step(100.0) == []
    partition.stopped_fetching(OTHER, SECOND_LIFE, 100.0, subscription=2)
    due = partition.next_wakeup()
    assert due == 100.0 + partition.keep_in_sync_s
    assert partition.step(due - 0.1) == []
    (leaving,) = partition.step(due)
    assert isinstance(leaving, WriteIsr)
    assert leaving.left == (OTHER,)


def test_the_end_of_the_youngest_stream_stops_it(partition: LeaderPartition[str]) -> None:
    """CORRECTNESS I1: only a replica that fetches joins the ISR."""
    partition.fetched(OTHER, SECOND_LIFE, Offset(10), 0.0, subscription=1)
    partition.stopped_fetching(OTHER, SECOND_LIFE, 0.0, subscription=1)
    assert partition.catching_up == ()
    assert partition.step(0.0) == []
