"""Replicas that are not assigned to their broker: they are removed, and no others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.broker.core.replication.replica_states import ReplicaState
from strandline.broker.replicas.epoch_source import raise_epoch
from strandline.broker.state_changes.reconciler import Reconciler
from strandline.ids import LeaderEpoch
from strandline.ports import Delete
from strandline.vocabulary.state_changes import ChangeKind, StateChangeEvent
from tests.broker.support.queue_desk import (
    CLOSE,
    COMPLETED,
    OTHER,
    Desk,
    state,
)
from tests.broker.support.replicas import KEY, LIVE, NAME, write
from tests.broker.support.seat import ISR, ME, led_by, seated


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with seated(tmp_path) as seat:
        yield Desk(seat)


CLUSTER = "this cluster"


async def compared(desk: Desk, *, cluster_id: str = CLUSTER) -> list[StateChangeEvent]:
    """The recorded events of strays."""
    seat = desk.seat
    await seat.coordination.ensure_path(znodes.CLUSTER_ID)
    desk.set(znodes.CLUSTER_ID, CLUSTER.encode())
    reconciler = Reconciler(seat.context, seat.receiver.executor)
    assigned = await reconciler.read_assignments()
    await reconciler.remove_strays(assigned, cluster_id, LIVE[ME].epoch)
    return [event for event in seat.recorder.events if event.command is ChangeKind.DELETE_STRAY]


async def test_an_assigned_replica_is_no_stray(desk: Desk) -> None:
    assert await compared(desk) == []
    await desk.moves_away()
    assert await compared(desk) == [], "not before the reassignment is complete"
    await desk.asked(CLOSE)
    assert await compared(desk) == []
    assert state(desk.seat.replica) is ReplicaState.CLOSED


@pytest.mark.parametrize("how", ["gone", "another", "unassigned", "unassigned and closed"])
async def test_a_replica_that_zookeeper_does_not_assign_is_a_stray(desk: Desk, how: str) -> None:
    """CORRECTNESS Q7: it is recorded, and removed from the disk."""
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
    "doubt",
    ["cluster", "set back", "set back and raised", "creation", "in sync", "unreadable", "no partition"],
)
async def test_in_doubt_a_replica_stays(desk: Desk, doubt: str) -> None:
    """CORRECTNESS Q7: a log is not deleted because of something that could not be read."""
    desk.assign(1, 3)
    desk.seat.write(led_by(1, 1, 3, epoch=5))
    if doubt == "set back":
        write(desk.seat.replica, 6, "of an epoch that ZooKeeper has not come to")
    elif doubt == "set back and raised":
        write(desk.seat.replica, 6, "of an epoch that ZooKeeper has lost")
        await raise_epoch(desk.seat.coordination, LeaderEpoch(8))
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
