"""Reads brokers, topics and their partitions from ZooKeeper, with pipelined requests.

An unreadable znode is logged and skipped, as in `facts`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from strandline.adapters.zookeeper import facts, znodes
from strandline.adapters.zookeeper.facts import BulkReads, Reader, read_isr, read_registrations, read_replicas
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.controller.core.cluster import ClusterPicture, PlacedTopic
from strandline.controller.core.placement import ReplicaAssignment
from strandline.controller.core.topics import Brokers
from strandline.controller.term.fenced_session import FencedSession
from strandline.tasks import pipelined
from strandline.vocabulary.metadata import PartitionState
from strandline.vocabulary.topics import is_topic_name

_pipelined = partial(pipelined, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition as ZooKeeper has it."""

    number: int
    assignment: ReplicaAssignment
    state: PartitionState


async def read_brokers(session: FencedSession) -> Brokers:
    """The registered brokers, and all brokers that have a queue."""
    registered = await read_registrations(session)
    known = set(znodes.broker_ids(await session.children(znodes.STATE)))
    return Brokers(registered, known | registered.keys())


async def read_topics(session: FencedSession) -> tuple[ClusterPicture, set[str]]:
    """All topics with their assignments, and the names of topics that are being grown."""
    bulk = BulkReads(session)
    picture = ClusterPicture()
    growing: set[str] = set()

    async def read(name: str) -> tuple[str, PlacedTopic] | None:
        node = await read_topic(bulk, name)
        if node is None or node.partitions == 0:
            return None
        if node.growing:
            growing.add(name)
        found = await _pipelined(partial(read_replicas, bulk, name), range(node.partitions))
        return name, PlacedTopic(node.topic_id, [() if each is None else each.value for each in found])

    for found in await _pipelined(read, znodes.topic_names(await session.children(znodes.TOPICS))):
        if found is not None:
            picture.add(*found)
    return picture, growing


async def read_topic(session: Reader, name: str) -> znodes.TopicNode | None:
    """The topic's own znode; None if the name is not a valid topic name."""
    if not is_topic_name(name):
        return None
    found = await facts.read_topic(session, name)
    return None if found is None else found.value


async def read_partitions(session: Reader, name: str, numbers: Iterable[int]) -> list[Partition]:
    """Those of these partitions that exist."""

    async def read(number: int) -> Partition | None:
        assigned = await read_replicas(session, name, number)
        state = await read_isr(session, name, number)
        return None if assigned is None or state is None else Partition(number, assigned.value, state.value)

    return [partition for partition in await _pipelined(read, numbers) if partition is not None]
