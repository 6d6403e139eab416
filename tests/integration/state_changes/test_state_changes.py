"""State-change requests over the death of the broker that executes them, and the disk of a broker that was
away."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

import pytest

from strandline import Admin, NewTopic
from strandline.adapters.zookeeper import znodes
from strandline.vocabulary.state_changes import ENDS, ChangeKind, Command, RequestState, StateChangeEvent
from tests.integration.faults.test_crash_points import POINTS
from tests.integration.support.harness import ClusterHarness, Harness, Topic
from tests.integration.support.simulated_harness import SimulatedHarness
from tests.integration.support.state_changes import EventReading, reading_events
from tests.integration.support.workload import workload
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually


async def queue_is_empty(harness: ClusterHarness, broker: int, *, deadline_s: float = 30) -> None:
    """Everything was executed, recorded and removed."""

    async def empty() -> bool:
        return await harness.session.children(znodes.state_queue(broker)) == []

    await eventually(empty, deadline_s=deadline_s, what=f"the queue of broker {broker} is empty")


def lives(events: Iterable[StateChangeEvent]) -> dict[str, list[StateChangeEvent]]:
    """The recorded events of each request, in the order of the topic."""
    found: defaultdict[str, list[StateChangeEvent]] = defaultdict(list)
    for event in events:
        if isinstance(event.command, Command):
            found[event.id].append(event)
    return found


async def each_ended_once(reader: EventReading) -> dict[str, list[StateChangeEvent]]:
    """CORRECTNESS Q2: a request whose queue is empty has all its life in the topic, and one end."""
    await reader.to_the_end()
    found = lives(reader.events)
    for life in found.values():
        states = {event.state for event in life}
        assert len(states & ENDS) == 1, life
        assert RequestState.REQUESTED in states, life
        assert len({(e.command, e.key, e.broker, e.epoch, e.requester) for e in life}) == 1, life
    return found


def folders(harness: ClusterHarness, broker: int, topic: str) -> list[Path]:
    """The folders of its replicas, of any incarnation."""
    return harness.folders(broker, f"{topic}-")


@on_virtual_time
@pytest.mark.parametrize("point", [point for point in POINTS if point.startswith("state_change.")])
async def test_a_request_ends_once_even_if_its_broker_dies_at_any_step(
    simulated: SimulatedHarness, point: str
) -> None:
    """CORRECTNESS Q2: executed again if need be, ended once, recorded completely."""
    topic = await simulated.create_topic([(1, 2, 3)])
    await POINTS[point](simulated, topic, point)
    await simulated.heal()
    await topic.settled()
    for broker in (1, 2, 3):
        await queue_is_empty(simulated, broker)
    async with reading_events(simulated) as reader:
        found = await each_ended_once(reader)
    asked_while_dead = [
        life for life in found.values() if life[0].topic == topic.name and life[0].broker == 2
    ]
    assert len(asked_while_dead) >= 2, "by the controller, and by broker 3 when it was elected"


@on_virtual_time
async def test_a_topic_deleted_and_recreated_while_a_broker_was_away(simulated: SimulatedHarness) -> None:
    """CORRECTNESS Q1: when it returns its old data goes, and the new topic of the name is unharmed."""
    old = await simulated.create_topic([(1, 2, 3)])
    async with workload(old, producers=1) as load:
        await load.progress()
    await simulated.cluster.kill_broker(3)
    (remains,) = folders(simulated, 3, old.name)
    async with Admin(simulated.cluster.bootstrap, host=simulated.cluster.host) as admin:
        await admin.delete_topics([old.name])
        await admin.create_topics([NewTopic(old.name, 1, assignments=[(1, 2, 3)])])
    new = Topic(simulated, old.name, [(1, 2, 3)])
    await new.isr_is(1, 2)
    async with workload(new, producers=1) as load:
        await load.progress()
        await simulated.cluster.start_broker(3)
        await new.isr_is(1, 2, 3)
        await eventually(lambda: remains not in folders(simulated, 3, old.name), what="the old data is gone")
        await load.progress()
        await load.judge()
    assert len(folders(simulated, 3, old.name)) == 1
    await queue_is_empty(simulated, 3)
    async with reading_events(simulated) as reader:
        found = await each_ended_once(reader)
    (deletion,) = [
        life
        for life in found.values()
        if (life[0].topic, life[0].broker, life[0].command) == (old.name, 3, Command.DELETE_REPLICA)
    ]
    assert deletion[-1].state is RequestState.COMPLETED


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_replica_that_is_not_assigned_is_removed_at_start(harness: Harness) -> None:
    """CORRECTNESS Q7: the queue is a hint, and what it lost is found; what is assigned stays."""
    topic = await harness.create_topic([(1, 2, 3)])
    await harness.cluster.stop_broker(3)
    mine = topic.folder(3)
    stranger = mine.with_name(f"nobodys-0-{uuid4().hex}")
    shutil.copytree(mine, stranger)
    description = json.loads((stranger / "partition.json").read_text())
    topic_id = stranger.name.rpartition("-")[2]
    (stranger / "partition.json").write_text(
        json.dumps({**description, "topic": "nobodys", "topic_id": topic_id})
    )
    await harness.cluster.start_broker(3)
    assert not stranger.exists(), "before it serves"
    await topic.isr_is(1, 2, 3)
    assert topic.folder(3) == mine
    async with reading_events(harness) as reader:
        (event,) = await reader.until(
            lambda e: e.command is ChangeKind.DELETE_STRAY and e.topic == "nobodys", what="it is told"
        )
    assert (event.broker, event.key.topic_id, event.state) == (3, topic_id, RequestState.COMPLETED)
