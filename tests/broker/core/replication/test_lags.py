"""How far the replicas of a led partition are, as their leader knows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.broker.core.replication.copy_rate import CopyRates
from strandline.broker.core.replication.lags import kept_from, replica_lags
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.ids import BrokerEpoch, BrokerId, Offset, TopicId
from strandline.vocabulary.log import UNKNOWN, ReplicaProgress
from strandline.vocabulary.metadata import Reassignment
from tests.broker.core.replication.test_leader_partition import Driver, member

RECORD_BYTES = 100


def lags(driver: Driver, *, now: float = 0.0) -> dict[int, ReplicaProgress]:
    core = driver.partition
    end = core.log_end_offset
    found = replica_lags(core, end, lambda offset: (end - offset) * RECORD_BYTES, now)
    return {each.broker: each for each in found}


def test_a_replica_that_has_reported_nothing_is_unknown_since_the_election() -> None:
    """It may have everything or nothing; that it has not come for that long is certain."""
    found = lags(Driver(log_end=7), now=2.5)
    assert found[1] == ReplicaProgress(1, True, True, False, False, 7, 0, 0, 0)
    assert found[2] == ReplicaProgress(2, True, False, False, False, UNKNOWN, UNKNOWN, UNKNOWN, 2_500)


def test_a_replica_is_behind_in_offsets_bytes_and_time() -> None:
    """The time runs since it had all that the leader had then, not since its last report."""
    driver = Driver()
    driver.fetched(2, 0)
    driver.produce("a", 5, now=10.0)
    driver.fetched(2, 3, now=10.25)
    found = lags(driver, now=10.75)[2]
    assert found == ReplicaProgress(2, True, True, False, False, 3, 2, 2 * RECORD_BYTES, 750)
    driver.fetched(2, 5, now=10.75)
    assert lags(driver, now=99.0)[2] == ReplicaProgress(2, True, True, False, False, 5, 0, 0, 0)


def test_a_replica_that_always_trails_a_little_is_behind_for_a_short_time() -> None:
    """Under a steady load it lacks something at each moment: the time is that of its last full copy."""
    driver = Driver()
    driver.fetched(2, 0)
    for second in range(1, 9):
        driver.produce(str(second), second * 10, now=float(second))
        driver.fetched(2, second * 10 - 5, now=second + 0.5)
    found = lags(driver, now=8.5)[2]
    assert found.lag == 5
    assert found.lag_ms <= 2_000


def test_a_replica_that_stopped_fetching_is_late_from_then_on() -> None:
    """Also if nothing was appended since: what it has is uncertain."""
    driver = Driver()
    driver.fetched(2, 0)
    driver.partition.stopped_fetching(BrokerId(2), BrokerEpoch(20), 4.0)
    found = lags(driver, now=5.0)[2]
    assert (found.fetching, found.lag, found.lag_bytes, found.lag_ms) == (False, 0, 0, 1_000)


def moving(*, reverting: bool, throttle: int = 0) -> Driver:
    """From 1, 2 to 1, 3; 4 was of an earlier target."""
    one, two, three, four = (BrokerId(each) for each in (1, 2, 3, 4))
    wanted = Reassignment(TopicId("t"), (one, three), (one, two), throttle, reverting=reverting)
    driver = Driver(isr=(1, 2))
    driver.partition.assign(PartitionAssignment((one, two, four, three), 1, wanted, 1), 1, 0.0)
    return driver


@pytest.mark.parametrize(("reverting", "adding", "removing"), [(False, {3}, {2, 4}), (True, set(), {3, 4})])
def test_what_a_reassignment_adds_and_removes_is_marked(
    reverting: bool, adding: set[int], removing: set[int]
) -> None:
    """A cancelled one adds none, and removes what it had added."""
    found = lags(moving(reverting=reverting))
    assert {broker for broker, each in found.items() if each.adding} == adding
    assert {broker for broker, each in found.items() if each.removing} == removing
    assert [broker for broker, each in found.items() if each.in_sync] == [1, 2]


def test_a_replica_that_is_copied_has_a_rate_and_a_time_that_is_left() -> None:
    """Only until it is in sync: then it gets what is produced, at any rate."""
    rates = CopyRates()
    for second in range(5):
        sent = (second + 1) * 4
        rates.sent(BrokerId(3), 400, sent, (56 - sent) * RECORD_BYTES, float(second))
    driver = moving(reverting=False)
    driver.partition.appended(Offset(56), 4.0)

    def found() -> ReplicaProgress:
        described = replica_lags(
            driver.partition, 56, lambda offset: (56 - offset) * RECORD_BYTES, 4.0, rates
        )
        return {each.broker: each for each in described}[3]

    assert (found().bytes_per_s, found().ms_left) == (500, UNKNOWN), "it has reported nothing"
    driver.partition.fetched(BrokerId(3), BrokerEpoch(30), Offset(16), 4.0)
    assert (found().lag_bytes, found().bytes_per_s, found().ms_left) == (4_000, 500, 8_000)
    driver.partition.isr.settle((*driver.partition.isr.members, member(3)), 5)
    assert (found().bytes_per_s, found().ms_left) == (UNKNOWN, UNKNOWN)


@pytest.mark.parametrize(
    ("throttle", "near", "ms_left"),
    [(1_000, 0, 8_000), (100, 0, 40_000), (100, 1_000, 30_000), (100, 5_000, 8_000)],
)
def test_a_copy_that_was_faster_than_its_throttle_is_not_said_to_stay_so(
    throttle: int, near: int, ms_left: int
) -> None:
    """The pace of the last seconds may be that of its beginning, or of an earlier throttle."""
    rates = CopyRates()
    for second in range(5):
        sent = (second + 1) * 4
        rates.sent(BrokerId(3), 400, sent, (56 - sent) * RECORD_BYTES, float(second))
    driver = moving(reverting=False, throttle=throttle)
    driver.partition.appended(Offset(56), 4.0)
    driver.partition.fetched(BrokerId(3), BrokerEpoch(30), Offset(16), 4.0)
    described = replica_lags(
        driver.partition, 56, lambda offset: (56 - offset) * RECORD_BYTES, 4.0, rates, near
    )
    assert [each.ms_left for each in described if each.broker == 3] == [ms_left]


def test_a_replica_that_refills_has_a_rate_and_a_time_too() -> None:
    """As one that is copied; one that a reassignment removes is not waited for, and has none."""
    rates = CopyRates()
    for second in range(5):
        sent = (second + 1) * 4
        for broker in (BrokerId(3), BrokerId(4)):
            rates.sent(broker, 400, sent, (56 - sent) * RECORD_BYTES, float(second))
    driver = Driver(isr=(1, 2))
    driver.partition.appended(Offset(56), 4.0)
    driver.partition.fetched(BrokerId(3), BrokerEpoch(30), Offset(16), 4.0)
    described = replica_lags(driver.partition, 56, lambda offset: (56 - offset) * RECORD_BYTES, 4.0, rates)
    found = {each.broker: each for each in described}
    assert (found[3].adding, found[3].bytes_per_s, found[3].ms_left) == (False, 500, 8_000)
    assert (found[2].bytes_per_s, found[2].ms_left) == (UNKNOWN, UNKNOWN)
    leaving = moving(reverting=False)
    leaving.partition.fetched(BrokerId(4), BrokerEpoch(40), Offset(16), 4.0)
    removed = replica_lags(leaving.partition, 56, lambda offset: (56 - offset) * RECORD_BYTES, 4.0, rates)
    assert next(each for each in removed if each.broker == 4).bytes_per_s == UNKNOWN


def test_a_member_that_is_assigned_no_longer_is_described_until_it_leaves() -> None:
    """CORRECTNESS H3: the high watermark waits for it."""
    driver = Driver(answer=False)
    driver.fetched(3, 0)
    two_left = replace(driver.partition.assignment, replicas=(BrokerId(1), BrokerId(2)), version=1)
    driver.partition.assign(two_left, 1, 0.0)
    found = lags(driver)
    assert list(found) == [1, 2, 3]
    assert found[3].in_sync and found[3].removing


def test_bytes_are_not_looked_up_for_a_replica_that_lacks_nothing() -> None:
    """Thousands of partitions are described at once, most of them without a lag."""
    driver = Driver()
    driver.fetched(2, 0)
    driver.fetched(3, 0)

    def never(offset: int) -> int:
        raise AssertionError(offset)

    assert [each.lag_bytes for each in replica_lags(driver.partition, Offset(0), never, 0.0)] == [0, 0, 0]


def test_compaction_keeps_what_a_replica_may_lack_that_is_not_in_sync() -> None:
    """CORRECTNESS C8: those in sync have all that is below the high watermark."""
    driver = Driver(isr=(1, 2))
    driver.fetched(2, 0)
    driver.produce("a", 5, now=10.0)
    driver.fetched(2, 5, now=10.0)
    core = driver.partition
    assert core.high_watermark == 5
    assert kept_from(core) == 0, "replica 3 has reported nothing"
    driver.fetched(3, 2, now=20.0)
    core.stopped_fetching(BrokerId(3), BrokerEpoch(30), 30.0)
    assert kept_from(core) == 2
    driver.fetched(3, 5, now=40.0)
    assert kept_from(core) == 5
