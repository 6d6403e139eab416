"""Replicas that are not assigned to their broker: they are removed, and no others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.broker.core.replication.replica_states import ReplicaState
from strandline.broker.replicas.epoch_source import raise_epoch
from strandline.broker.state_changes.reconciler import Reconciler
from strandline.config.limits import ZOOKEEPER_BULK_READS_IN_FLIGHT_MAX
from strandline.ids import LeaderEpoch
from strandline.ports import Delete
from strandline.vocabulary.state_changes import ChangeKind, StateChangeEvent
from tests.broker.support.queue_bench import (
    CLOSE,
    COMPLETED,
    OTHER,
    QueueBench,
    state,
)
from tests.broker.support.replicas import KEY, LIVE, NAME, write
from tests.broker.support.seat import ISR, ME, led_by, seated


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[QueueBench]:
    async with seated(tmp_path) as seat:
        yield QueueBench(seat)


CLUSTER = "this cluster"


async def compared(bench: QueueBench, *, cluster_id: str = CLUSTER) -> list[StateChangeEvent]:
    """The recorded events of strays."""
    seat = bench.seat
    await seat.coordination.ensure_path(znodes.CLUSTER_ID)
    bench.set(znodes.CLUSTER_ID, CLUSTER.encode())
    reconciler = Reconciler(seat.context, seat.receiver.executor)
    assigned = await reconciler.read_assignments()
    await reconciler.remove_strays(assigned, cluster_id, LIVE[ME].epoch)
    return [event for event in seat.recorder.events if event.command is ChangeKind.DELETE_STRAY]


async def test_an_assigned_replica_is_no_stray(bench: QueueBench) -> None:
    assert await compared(bench) == []
    await bench.moves_away()
    assert await compared(bench) == [], "not before the reassignment is complete"
    await bench.asked(CLOSE)
    assert await compared(bench) == []
    assert state(bench.seat.replica) is ReplicaState.CLOSED


@pytest.mark.parametrize("how", ["gone", "another", "unassigned", "unassigned and closed"])
async def test_a_replica_that_zookeeper_does_not_assign_is_a_stray(bench: QueueBench, how: str) -> None:
    """CORRECTNESS Q7: it is recorded, and removed from the disk."""
    folder = bench.seat.replica.log.directory
    if "closed" in how:
        await bench.moves_away()
        await bench.asked(CLOSE)
        await bench.stays()
    if how == "gone":
        for path in (ISR, znodes.replicas(*NAME), znodes.partition(*NAME), znodes.topic(NAME.topic)):
            bench.seat.tree.apply(Delete(path), owner=0)
    elif how == "another":
        bench.set(znodes.topic(NAME.topic), znodes.dump_topic(znodes.TopicNode(OTHER.topic_id, 1, {})))
    else:
        bench.seat.write(led_by(1, 1, 3, epoch=5))
        bench.assign(1, 3)
    (event,) = await compared(bench)
    assert (event.key, event.broker, event.state) == (KEY, ME, COMPLETED)
    assert not folder.exists()
    assert bench.seat.manager.get(KEY) is None


@pytest.mark.parametrize(
    "doubt",
    ["cluster", "set back", "set back and raised", "creation", "in sync", "unreadable", "no partition"],
)
async def test_in_doubt_a_replica_stays(bench: QueueBench, doubt: str) -> None:
    """CORRECTNESS Q7: a log is not deleted because of something that could not be read."""
    bench.assign(1, 3)
    bench.seat.write(led_by(1, 1, 3, epoch=5))
    if doubt == "set back":
        write(bench.seat.replica, 6, "of an epoch that ZooKeeper has not come to")
    elif doubt == "set back and raised":
        write(bench.seat.replica, 6, "of an epoch that ZooKeeper has lost")
        await raise_epoch(bench.seat.coordination, LeaderEpoch(8))
    elif doubt == "creation":
        bench.set(znodes.topic(NAME.topic), znodes.dump_topic(znodes.TopicNode(KEY.topic_id, 0, {})))
    elif doubt == "in sync":
        bench.seat.write(led_by(1, 1, 2, 3, epoch=5))
    elif doubt == "unreadable":
        bench.set(znodes.topic(NAME.topic), b"{")
    elif doubt == "no partition":
        bench.seat.tree.apply(Delete(znodes.replicas(*NAME)), owner=0)
    cluster_id = "another cluster" if doubt == "cluster" else CLUSTER
    assert await compared(bench, cluster_id=cluster_id) == []
    assert bench.seat.manager.get(KEY) is bench.seat.replica


async def test_a_comparison_with_thousands_of_partitions_leaves_room_for_elections(bench: QueueBench) -> None:
    """Each topic's loop had a bound of its own, so all partitions of the cluster were read at once."""
    seat = bench.seat
    seat.tree.add_topics(10, partitions=50)
    await Reconciler(seat.context, seat.receiver.executor).read_assignments()
    assert seat.coordination.most_in_flight == ZOOKEEPER_BULK_READS_IN_FLIGHT_MAX
