"""Requests queued for other brokers: recorded at once, packed, bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import queue_znodes
from strandline.broker.state_changes.sender import StateChangeSender
from strandline.ids import BrokerId, LeaderEpoch
from strandline.ports import Create, Delete
from strandline.vocabulary.state_changes import Command, RequestState, StateChange
from tests.broker.support.queue_bench import (
    CLOSE,
    DELETE,
    FAILED,
    START,
    QueueBench,
)
from tests.broker.support.replicas import LIVE
from tests.broker.support.seat import ME, seated
from tests.waiting import eventually


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[QueueBench]:
    async with seated(tmp_path) as seat:
        yield QueueBench(seat)


@asynccontextmanager
async def sender(bench: QueueBench, **bounds: Any) -> AsyncIterator[StateChangeSender]:
    """Another one of broker 2, with bounds that a test can reach."""
    found = StateChangeSender(bench.seat.context, **bounds)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(found.run())
        yield found
        running.cancel()


async def queued_for(bench: QueueBench, broker: int) -> list[StateChange]:
    path = znodes.state_queue(broker)
    names = sorted(bench.seat.tree.children(path)) if path in bench.seat.tree.nodes else []
    return [
        change
        for name in names
        for change in queue_znodes.load_state_changes(bench.seat.tree.nodes[f"{path}/{name}"].data)
    ]


async def test_a_requester_records_its_request_at_once(bench: QueueBench) -> None:
    """Its broker may be dead for long: what was asked is seen."""
    bench.seat.sender.start_replicas(bench.seat.replica, LeaderEpoch(6), "a new leader")
    await eventually(lambda: len(bench.seat.recorder.events) == 2)
    for event, broker in zip(bench.seat.recorder.events, (1, 3), strict=True):
        (change,) = await queued_for(bench, broker)
        assert (event.id, event.broker, event.state) == (change.request_id, broker, RequestState.REQUESTED)
        assert (event.requester, event.epoch, event.reason) == (ME, 6, "a new leader")
        assert change.broker_epoch == LIVE[BrokerId(broker)].epoch, "CORRECTNESS E4"


@pytest.mark.parametrize("applied", [False, True])
async def test_a_request_that_may_be_queued_is_not_queued_twice(bench: QueueBench, applied: bool) -> None:
    """CORRECTNESS E9, Q2: what is sent next has an id of its own, so each of the two has one end."""
    bench.seat.coordination.lose(Create, applied=applied)
    bench.seat.sender.send(CLOSE, bench.seat.replica, LeaderEpoch(6), [BrokerId(1)], "")
    await eventually(lambda: bench.seat.recorder.events)
    found = await queued_for(bench, 1)
    assert len(found) == len({change.request_id for change in found}) == (2 if applied else 1)
    assert [event.id for event in bench.seat.recorder.events] == [found[-1].request_id]


async def test_a_queue_that_is_full_takes_no_start_and_loses_no_deletion(bench: QueueBench) -> None:
    """CORRECTNESS Q4, Q5: a broker that is long gone reads what it is assigned when it returns."""
    await bench.seat.coordination.ensure_path(f"{znodes.state_queue(1)}/request-0000000000")
    async with sender(bench, queue_entries_max=1, full_queue_s=0.01) as outbox:
        outbox.send(START, bench.seat.replica, LeaderEpoch(6), [BrokerId(1)], "")
        outbox.send(DELETE, bench.seat.replica, LeaderEpoch(6), [BrokerId(1), BrokerId(3)], "")
        await eventually(lambda: len(bench.seat.recorder.events) == 3)
        started = [event for event in bench.seat.recorder.events if event.command is START]
        assert [event.state for event in started] == [RequestState.REQUESTED, FAILED]
        assert "1 znodes" in started[-1].reason
        assert [change.command for change in await queued_for(bench, 3)] == [DELETE], "no other queue waits"
        bench.seat.tree.apply(Delete(f"{znodes.state_queue(1)}/request-0000000000"), owner=0)
        await eventually(lambda: len(bench.seat.recorder.events) == 4)
    assert [change.command for change in await queued_for(bench, 1)] == [DELETE]


async def test_a_broker_that_was_forgotten_gets_no_queue_again(bench: QueueBench) -> None:
    """An operator would find it among the known ones again. If it returns it reads what it is assigned."""
    bench.seat.tree.apply(Delete(znodes.state_queue(1)), owner=0)
    async with sender(bench) as outbox:
        outbox.send(START, bench.seat.replica, LeaderEpoch(6), [BrokerId(1)], "late")
        await eventually(lambda: len(bench.seat.recorder.events) == 2)
    assert [event.state for event in bench.seat.recorder.events] == [RequestState.REQUESTED, FAILED]
    assert bench.seat.recorder.events[-1].reason == "broker 1 is not registered, and has no queue"
    assert znodes.state_queue(1) not in bench.seat.tree.nodes


@pytest.mark.parametrize(("command", "registered"), [(START, True), (DELETE, False)])
async def test_a_queue_that_was_removed_is_made_again_for_a_request_that_needs_it(
    bench: QueueBench, command: Command, registered: bool
) -> None:
    """CORRECTNESS Q5: of a broker that is registered, and for a deletion, which must not be dropped."""
    bench.seat.tree.apply(Delete(znodes.state_queue(1)), owner=0)
    if registered:
        await bench.seat.coordination.ensure_path(znodes.broker(1))
    async with sender(bench) as outbox:
        outbox.send(command, bench.seat.replica, LeaderEpoch(6), [BrokerId(1)], "")
        await eventually(lambda: bench.seat.recorder.events)
    assert [change.command for change in await queued_for(bench, 1)] == [command]


async def test_requests_are_packed_by_number_and_by_size(bench: QueueBench) -> None:
    """CORRECTNESS Q4: few znodes, and in each there is room for the ends."""
    async with sender(bench, entry_requests_max=4, entry_bytes_max=2_000) as outbox:
        for reason in ["short"] * 6 + ["long" * 400] * 2:
            outbox.send(START, bench.seat.replica, LeaderEpoch(6), [BrokerId(1)], reason)
        await eventually(lambda: len(bench.seat.recorder.events) == 8)
    path = znodes.state_queue(1)
    sizes = [
        len(queue_znodes.load_state_changes(bench.seat.tree.nodes[f"{path}/{name}"].data))
        for name in sorted(bench.seat.tree.children(path))
    ]
    assert sizes == [4, 2, 1, 1]
