"""How far followers are behind, in the metrics of both ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from strandline.broker.replicas.replica import Replica
from strandline.broker.series.followers import FOLLOWER_METRICS, FollowerLags
from strandline.ids import BrokerId, Offset
from strandline.vocabulary.replication import Push
from tests.broker.replication.test_throttle import moving
from tests.broker.support.replicas import (
    CLOCK,
    LIVE,
    Led,
    batch,
    following,
    leading,
    open_replica,
    write,
)
from tests.waiting import eventually


def read(*led: Led, followed: tuple[Replica, ...] = (), later_s: float = 0.0) -> dict[tuple[str, ...], float]:
    lags = FollowerLags(CLOCK.monotonic() + later_s)
    for each in led:
        lags.add_led(each.replica, each.leadership)
    for replica in followed:
        lags.add_followed(replica)
    samples: Iterator[Any] = lags.samples()
    return {(each.metric.name, *each.labels): each.value for each in samples}


async def test_a_leader_knows_the_largest_lag_of_each_follower() -> None:
    """One series for each broker, however many partitions it follows."""
    small, large = open_replica(), open_replica()
    write(small, 4, "a")
    write(large, 4, *"abcdef")
    async with leading(small, 5) as one, leading(large, 5) as two:
        for leader, end in ((one, 1), (two, 2)):
            leader.leadership.fetched(BrokerId(2), LIVE[BrokerId(2)].epoch, end, subscription=1)
        found = read(one, two, later_s=9.0)
        assert found["strandline_follower_lag_offsets", "2"] == 4
        assert found["strandline_follower_lag_bytes", "2"] == large.log.bytes_from(2)
        assert 9.0 <= found["strandline_follower_lag_seconds", "2"] < 60
        assert found["strandline_follower_lag_seconds", "3"] >= 9.0, "it has reported nothing since"
        assert {name for name, *labels in found if labels} == {
            metric.name for metric in FOLLOWER_METRICS if metric.labels
        }


async def test_a_replica_that_a_reassignment_adds_is_no_late_follower_before_it_is_in_sync() -> None:
    """A long copy is no alarm; what it lacks has a metric of its own."""
    source = open_replica()
    write(source, 4, *"abc")
    source.assignment = replace(moving(), reassignment_version=1)
    async with leading(source, 5, isr=(1, 2)) as leader:
        found = read(leader, later_s=99.0)
        assert found["strandline_reassignment_left_bytes",] == source.log.size_bytes
        assert ("strandline_follower_lag_seconds", "3") not in found
        leader.leadership.fetched(BrokerId(3), LIVE[BrokerId(3)].epoch, 2, subscription=1)
        assert read(leader)["strandline_reassignment_left_bytes",] == source.log.bytes_from(2)


async def test_what_replicas_that_refill_lack_is_summed_up() -> None:
    """Those that fetch: nothing flows to the others."""
    source = open_replica()
    write(source, 4, *"abc")
    async with leading(source, 5, isr=(1, 2)) as leader:
        assert read(leader)["strandline_refill_left_bytes",] == 0
        leader.leadership.fetched(BrokerId(3), LIVE[BrokerId(3)].epoch, 2, subscription=1)
        assert read(leader)["strandline_refill_left_bytes",] == source.log.bytes_from(2)
        assert read(leader)["strandline_reassignment_left_bytes",] == 0
        leader.leadership.fetched(BrokerId(3), LIVE[BrokerId(3)].epoch, 3, subscription=1)
        assert read(leader)["strandline_refill_left_bytes",] == 0


async def test_a_follower_knows_how_much_is_committed_that_it_lacks() -> None:
    """MaxLag of ReplicaFetcherManager: the leader tells its high watermark with the first records."""
    target = open_replica()
    async with following(target, 5) as follower:
        await eventually(lambda: follower.streams)
        await follower.stream.heard()
        follower.stream.push(Push(1, 700, 0, batch("a", leader_epoch=5)))
        await eventually(lambda: target.log.log_end_offset == 1)
        assert read(followed=(target, open_replica()))["kafka_server_replicafetchermanager_maxlag",] == 699
        target.leader_watermark = Offset(1)
        assert read(followed=(target,))["kafka_server_replicafetchermanager_maxlag",] == 0
