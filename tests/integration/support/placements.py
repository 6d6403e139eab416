"""Moves the replicas of a topic, and waits until they are nowhere but where they were asked to be."""

from __future__ import annotations

import json

from strandline import Admin
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import queue_znodes, reassignment_znodes
from strandline.ports import ConnectionLost, NoNode
from strandline.vocabulary.metadata import PartitionState, Reassignment
from tests.integration.support.harness import Topic
from tests.waiting import eventually

MOVED_S_MAX = 60.0


async def reassign(topic: Topic, *replicas: int, partition: int = 0) -> None:
    """Returns once it is under way."""
    async with Admin(topic.harness.cluster.bootstrap, host=topic.harness.cluster.host) as admin:
        await admin.reassign({topic.partitions[partition]: replicas})
    expect(topic, *replicas, partition=partition)


async def cancel(topic: Topic, *replicas: int, partition: int = 0) -> None:
    """Take it back; these are the replicas from before."""
    async with Admin(topic.harness.cluster.bootstrap, host=topic.harness.cluster.host) as admin:
        await admin.cancel_reassignment([topic.partitions[partition]])
    expect(topic, *replicas, partition=partition)


async def elect(topic: Topic) -> None:
    """Have the preferred replica lead."""
    async with Admin(topic.harness.cluster.bootstrap, host=topic.harness.cluster.host) as admin:
        await admin.elect_preferred([topic.partitions[0]])


async def led_by(topic: Topic, broker: int, partition: int = 0) -> PartitionState:
    """The state once this broker leads."""

    async def leads() -> PartitionState | None:
        state = await topic.state(partition)
        return state if state.leader == broker else None

    found = await eventually(leads, deadline_s=30, what=f"broker {broker} leads {topic.name}-{partition}")
    assert found is not None
    return found


def expect(topic: Topic, *replicas: int, partition: int = 0) -> None:
    """From now on the topic is whole when it is here."""
    assignment = list(topic.assignment)
    assignment[partition] = replicas
    topic.assignment = assignment


async def standing(topic: Topic, partition: int = 0) -> Reassignment | None:
    try:
        node = await topic.harness.session.get(znodes.reassigned(topic.name, partition))
    except NoNode:
        return None
    return reassignment_znodes.load_reassignment(topic.name, partition, node.data)


async def moved(topic: Topic, *, deadline_s: float = MOVED_S_MAX) -> None:
    """Return once every partition has the replicas that are expected, all in sync; nothing is left of its
    reassignment, in queues or on disks; and the preferred one, alive and well, leads."""
    last = ""

    async def differences() -> bool:
        nonlocal last
        try:
            found = [d for number in range(len(topic.assignment)) for d in await _missing(topic, number)]
        except ConnectionLost as error:
            found = [str(error)]
        last = json.dumps(found)
        return not found

    try:
        await eventually(differences, deadline_s=deadline_s)
    except AssertionError as error:
        raise AssertionError(f"{topic.name} has not moved: {last}") from error


async def _missing(topic: Topic, partition: int) -> list[str]:
    session, cluster = topic.harness.session, topic.harness.cluster
    wanted = topic.assignment[partition]
    found: list[str] = []
    raw = (await session.get(znodes.replicas(topic.name, partition))).data
    if (assigned := znodes.load_replicas(topic.name, partition, raw)) != wanted:
        found.append(f"AR is {assigned}, not {wanted}")
    if (moving := await standing(topic, partition)) is not None:
        found.append(f"it moves from {moving.original} to {moving.target}")
    state = await topic.state(partition)
    if set(state.isr_ids) != set(wanted):
        found.append(f"the ISR is {state.isr_ids}, not {wanted}")
    if state.leader not in wanted:
        found.append(f"{state.leader} leads")
    for broker in cluster.broker_ids:
        for entry in await session.children(znodes.state_queue(broker)):
            try:
                node = await session.get(f"{znodes.state_queue(broker)}/{entry}")
            except NoNode:
                continue
            found += [
                f"{change.command.value} waits for {broker}"
                for change in queue_znodes.load_state_changes(node.data)
                if (change.topic, change.key.partition) == (topic.name, partition)
            ]
        folders = topic.harness.folders(broker, f"{topic.name}-{partition}-")
        if bool(folders) != (broker in wanted):
            found.append(f"broker {broker} has {[folder.name for folder in folders]}")
    return found
