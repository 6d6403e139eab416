"""A topic with where its replicas are and where they go, and the versions by which a write is fenced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from strandline.adapters.zookeeper import znodes
from strandline.config import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.controller.core.placement import Assignment
from strandline.controller.core.reassignment import Placed
from strandline.controller.term.fenced_session import FencedSession
from strandline.controller.term.reading import read_znode
from strandline.errors import UnknownTopicOrPartition
from strandline.ports import NoNode
from strandline.tasks import pipelined
from strandline.vocabulary.topics import is_topic_name

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlacedPartitions:
    """Some partitions of one topic."""

    name: str
    node: znodes.TopicNode
    version: int
    """Of the topic's znode."""
    partitions: Mapping[int, Placed]


def unknown_partition(topic: PlacedPartitions, number: int) -> UnknownTopicOrPartition:
    """What to say of a partition that is not among these."""
    last = topic.node.partitions - 1
    return UnknownTopicOrPartition(f"topic {topic.name!r} has partitions 0 to {last}, there is no {number}")


async def read_placements(
    session: FencedSession, name: str, numbers: Iterable[int] | None = None
) -> PlacedPartitions:
    """These partitions of a topic, or all; what is not there is left out. Raises UnknownTopicOrPartition."""
    topic = None
    if is_topic_name(name):
        topic = await _versioned(session, znodes.topic(name), lambda data: znodes.load_topic(name, data))
    if topic is None or topic[0].partitions == 0:
        raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
    node, version = topic
    moving = await read_moving_of(session, name) or set()

    async def read(number: int) -> Placed | None:
        # The reassignment before AR: who changes both changes AR's version, so at worst a write is refused.
        wanted = None
        if number in moving:
            wanted = await _versioned(
                session,
                znodes.reassigned(name, number),
                lambda data: znodes.load_reassignment(name, number, data),
            )
        assigned = await read_assigned(session, name, number)
        state = await _versioned(
            session, znodes.isr(name, number), lambda data: znodes.load_isr(name, number, data)
        )
        if assigned is None or state is None:
            return None
        if wanted is None or wanted[0].topic_id != node.topic_id:
            return Placed(number, *assigned, state[0])
        return Placed(number, *assigned, state[0], *wanted)

    every = range(node.partitions)
    chosen = every if numbers is None else [number for number in numbers if number in every]
    found = await pipelined(read, chosen, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
    return PlacedPartitions(name, node, version, {each.number: each for each in found if each is not None})


async def read_moving(session: FencedSession) -> list[tuple[str, int]]:
    """Every partition under reassignment, by its topic's name and its number."""
    names = znodes.topic_names(await session.children(znodes.REASSIGNED))

    async def read(name: str) -> list[tuple[str, int]]:
        return [(name, number) for number in sorted(await read_moving_of(session, name) or ())]

    found = await pipelined(read, names, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
    return [place for places in found for place in places]


async def read_moving_of(session: FencedSession, name: str) -> set[int] | None:
    """The partitions of a topic that are under reassignment; None if it has no folder for them."""
    try:
        children = await session.children(znodes.reassigned_topic(name))
    except NoNode:
        return None
    return set(znodes.numbers(children))


async def read_assigned(session: FencedSession, name: str, number: int) -> tuple[Assignment, int] | None:
    """AR of a partition and its version."""
    return await _versioned(
        session, znodes.replicas(name, number), lambda data: znodes.load_replicas(name, number, data)
    )


async def _versioned(session: FencedSession, path: str, load: Callable[[bytes], T]) -> tuple[T, int] | None:
    """What a znode holds and its version; None as `read_znode`."""
    return await read_znode(session, path, lambda node: (load(node.data), node.version))
