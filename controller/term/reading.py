"""What the controller reads from ZooKeeper, pipelined: brokers and assignments.

A znode that somebody else wrote and nobody understands is logged and left out, never guessed at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import structlog

from strandline.adapters.zookeeper import znodes
from strandline.config import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.controller.core.cluster import ClusterPicture, PlacedTopic
from strandline.controller.core.placement import Assignment
from strandline.controller.core.topics import Brokers
from strandline.controller.term.fenced_session import FencedSession
from strandline.ids import TopicId
from strandline.ports import NoNode, Znode
from strandline.tasks import pipelined
from strandline.vocabulary.metadata import PartitionState, Registration
from strandline.vocabulary.topics import is_topic_name

logger = structlog.get_logger(__name__)

T = TypeVar("T")

_pipelined = partial(pipelined, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition as ZooKeeper has it."""

    number: int
    assignment: Assignment
    state: PartitionState


async def read_brokers(session: FencedSession) -> Brokers:
    """The registered, and everybody who ever had a queue."""
    live = await _pipelined(partial(_registration, session), await session.children(znodes.BROKER_IDS))
    queues = await session.children(znodes.STATE)
    registered = {broker.id: broker for broker in live if broker is not None}
    known = set(znodes.broker_ids(queues))
    return Brokers(registered, known | registered.keys())


async def _registration(session: FencedSession, child: str) -> Registration | None:
    return await read_znode(
        session,
        f"{znodes.BROKER_IDS}/{child}",
        lambda node: znodes.load_registration(int(child), node.data, node.czxid),
    )


async def read_topics(session: FencedSession) -> tuple[ClusterPicture, set[str]]:
    """Every topic that is there, with its assignments; and the names of those that grow."""
    picture = ClusterPicture()
    growing: set[str] = set()

    async def read(name: str) -> tuple[str, PlacedTopic] | None:
        node = await read_topic(session, name)
        if node is None or node.partitions == 0:
            return None
        if node.growing:
            growing.add(name)
        assignments = await _pipelined(partial(read_assignment, session, name), range(node.partitions))
        return name, PlacedTopic(node.topic_id, [assigned or () for assigned in assignments])

    for found in await _pipelined(read, znodes.topic_names(await session.children(znodes.TOPICS))):
        if found is not None:
            picture.add(*found)
    return picture, growing


async def read_topic(session: FencedSession, name: str) -> znodes.TopicNode | None:
    """The topic's own znode. What is no topic's name is no path either: nothing has it."""
    if not is_topic_name(name):
        return None
    return await read_znode(session, znodes.topic(name), lambda node: znodes.load_topic(name, node.data))


async def read_marker(session: FencedSession, name: str) -> TopicId | None:
    """Which incarnation of the topic is marked for deletion."""
    return await read_znode(
        session, znodes.delete_topic(name), lambda node: znodes.load_deletion(name, node.data)
    )


async def read_partitions(session: FencedSession, name: str, numbers: Iterable[int]) -> list[Partition]:
    """Those of these partitions that are there."""

    async def read(number: int) -> Partition | None:
        assignment = await read_assignment(session, name, number)
        state = await read_znode(
            session, znodes.isr(name, number), lambda node: znodes.load_isr(name, number, node.data)
        )
        return None if assignment is None or state is None else Partition(number, assignment, state)

    return [partition for partition in await _pipelined(read, numbers) if partition is not None]


async def read_assignment(session: FencedSession, name: str, number: int) -> Assignment | None:
    """AR of a partition."""
    return await read_znode(
        session, znodes.replicas(name, number), lambda node: znodes.load_replicas(name, number, node.data)
    )


async def read_znode(session: FencedSession, path: str, load: Callable[[Znode], T]) -> T | None:
    """What `load` makes of a znode; None if it is gone, or is not what its place says."""
    try:
        return load(await session.get(path))
    except NoNode:
        return None
    except ValueError as error:
        logger.error("not understood", path=path, reason=str(error))
        return None
