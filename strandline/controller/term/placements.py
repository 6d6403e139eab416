"""Reads a topic's replica assignments and reassignments, with the versions that fence a write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import (
    Reader,
    read_isr,
    read_reassignment,
    read_replicas,
    read_topic,
)
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.controller.core.placement import ReplicaAssignment
from strandline.controller.core.reassignment import Placed
from strandline.controller.term.fenced_session import FencedSession
from strandline.errors import UnknownTopicOrPartition
from strandline.ids import TopicId
from strandline.ports import NoNode
from strandline.tasks import pipelined
from strandline.vocabulary.log_position import same_topic
from strandline.vocabulary.metadata import Reassignment
from strandline.vocabulary.topics import is_topic_name


@dataclass(frozen=True, slots=True)
class PlacedPartitions:
    """Some partitions of one topic."""

    name: str
    node: znodes.TopicNode
    version: int
    """The version of the topic's znode."""
    partitions: Mapping[int, Placed]


def unknown_partition(topic: PlacedPartitions, number: int) -> UnknownTopicOrPartition:
    """The error for a partition number that the topic does not have."""
    last = topic.node.partitions - 1
    return UnknownTopicOrPartition(f"topic {topic.name!r} has partitions 0 to {last}, there is no {number}")


def check_topic(node: znodes.TopicNode, name: str, wanted_id: str) -> None:
    """Raises UnknownTopicOrPartition if another id is wanted than that of the topic that has the name."""
    if not same_topic(TopicId(wanted_id), node.topic_id):
        raise UnknownTopicOrPartition(f"topic {name!r} is another one by now: its id is {node.topic_id}")


async def read_placements(
    session: FencedSession, name: str, numbers: Iterable[int] | None = None
) -> PlacedPartitions:
    """Reads these partitions of a topic, or all. Leaves out missing ones. Raises UnknownTopicOrPartition."""
    topic = await read_topic(session, name) if is_topic_name(name) else None
    if topic is None or topic.value.partitions == 0:
        raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
    node = topic.value
    moving = await read_moving_of(session, name) or set()

    async def read(number: int) -> Placed | None:
        # Reads the reassignment before AR: a change of both changes AR's version, so at worst a write is
        # refused.
        wanted = await read_reassignment(session, name, number) if number in moving else None
        assigned = await read_replicas(session, name, number)
        state = await read_isr(session, name, number)
        if assigned is None or state is None:
            return None
        if wanted is None or wanted.value.topic_id != node.topic_id:
            return Placed(number, assigned.value, assigned.version, state.value)
        return Placed(number, assigned.value, assigned.version, state.value, wanted.value, wanted.version)

    every = range(node.partitions)
    chosen = every if numbers is None else [number for number in numbers if number in every]
    found = await pipelined(read, chosen, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
    return PlacedPartitions(
        name, node, topic.version, {each.number: each for each in found if each is not None}
    )


async def read_whole(
    session: FencedSession, name: str, number: int
) -> tuple[ReplicaAssignment, Reassignment | None] | None:
    """AR of a partition and its reassignment as they were at one moment; None if there is no AR.

    A reassignment writes AR when it begins and when it ends. So one that is read while AR stays the same
    belongs to it.
    """
    assigned = await read_replicas(session, name, number)
    while assigned is not None:
        wanted = await read_reassignment(session, name, number)
        again = await read_replicas(session, name, number)
        if again is not None and again.mzxid == assigned.mzxid:
            return assigned.value, None if wanted is None else wanted.value
        assigned = again
    return None


async def read_moving(session: FencedSession) -> list[tuple[str, int]]:
    """All partitions under reassignment: topic name and number."""
    names = znodes.topic_names(await session.children(znodes.REASSIGNED))

    async def read(name: str) -> list[tuple[str, int]]:
        return [(name, number) for number in sorted(await read_moving_of(session, name) or ())]

    found = await pipelined(read, names, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
    return [place for places in found for place in places]


async def read_moving_of(session: Reader, name: str) -> set[int] | None:
    """The partitions of a topic that are under reassignment; None if the topic has no folder for them."""
    try:
        children = await session.children(znodes.reassigned_topic(name))
    except NoNode:
        return None
    return set(znodes.numbers(children))
