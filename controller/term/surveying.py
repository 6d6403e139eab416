"""Reads the state of the whole cluster, and brokers' queues.

An unreadable znode is logged and skipped, as in `facts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import structlog

from strandline.adapters.zookeeper import queue_znodes, znodes
from strandline.adapters.zookeeper.facts import read_drains, read_reassignment, read_znode
from strandline.config.limits import STATE_QUEUE_ENTRIES_MAX, ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.controller.core.survey import StandingReassignment, Survey, SurveyedPartition
from strandline.controller.core.topics import Brokers
from strandline.controller.core.upkeep.queues import QueueEntry
from strandline.controller.term.fenced_session import FencedSession
from strandline.controller.term.placements import read_moving
from strandline.controller.term.reading import Partition, read_partitions, read_topic
from strandline.errors import InvalidConfig
from strandline.ids import BrokerId, PartitionId, PartitionKey, TopicId, TopicPartition
from strandline.ports import NoNode, Znode
from strandline.tasks import pipelined
from strandline.vocabulary.metadata import Reassignment
from strandline.vocabulary.topic_config import TopicConfig

logger = structlog.get_logger(__name__)

_pipelined = partial(pipelined, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)


async def read_queue(
    session: FencedSession, broker: BrokerId, *, known: Sequence[str] | None = None
) -> list[QueueEntry] | None:
    """Reads a broker's queue in order. Returns None if its entries are exactly `known`.

    One znode may carry many requests. Reads at most as many znodes as a queue may have.
    """
    queue = znodes.state_queue(broker)
    try:
        entries = sorted(await session.children(queue))[:STATE_QUEUE_ENTRIES_MAX]
    except NoNode:
        entries = []
    if known is not None and entries == list(known):
        return None

    async def read(entry: str) -> QueueEntry | None:
        def load(node: Znode) -> QueueEntry:
            changes = queue_znodes.load_state_changes(node.data)
            return QueueEntry(entry, node.version, len(node.data), tuple(changes))

        return await read_znode(session, f"{queue}/{entry}", load)

    return [entry for entry in await _pipelined(read, entries) if entry is not None]


async def read_survey(session: FencedSession, brokers: Brokers) -> Survey:
    """Reads everything that ZooKeeper has now: about two reads a partition."""
    drains = await read_drains(session)
    reassignments = await _reassignments(session)
    folders = znodes.broker_ids(await session.children(znodes.ELECTIONS))
    noticed = await _pipelined(partial(_notices, session), sorted(folders))
    moving = {name: wanted for name, (_, wanted) in reassignments.items()}
    names = znodes.topic_names(await session.children(znodes.TOPICS))
    topics = [found for found in await _pipelined(partial(_survey_topic, session, moving), names) if found]
    return Survey(
        live=brokers.live,
        known=brokers.known,
        drains=drains,
        topics={name: topic_id for name, topic_id, _ in topics},
        partitions=[partition for _, _, partitions in topics for partition in partitions],
        reassignments=[standing for standing, _ in reassignments.values()],
        noticed={broker: count for broker, count in noticed if count},
    )


async def _survey_topic(
    session: FencedSession, moving: Mapping[TopicPartition, Reassignment], name: str
) -> tuple[str, TopicId, list[SurveyedPartition]] | None:
    node = await read_topic(session, name)
    if node is None:
        return None
    topic_id = node.topic_id
    try:
        config = TopicConfig.parse(node.config)
    except InvalidConfig as error:
        logger.error("not understood", path=znodes.topic(name), reason=str(error))
        config = TopicConfig()

    def surveyed(partition: Partition) -> SurveyedPartition:
        wanted = moving.get(TopicPartition(name, partition.number))
        if wanted is not None and wanted.topic_id != topic_id:
            wanted = None
        sizes = (
            [len(partition.assignment)] if wanted is None else [len(wanted.original), len(wanted.replicas)]
        )
        key = PartitionKey(topic_id, PartitionId(partition.number))
        bound = config.min_insync(min(sizes))
        return SurveyedPartition(name, key, partition.assignment, partition.state, bound, wanted)

    partitions = await read_partitions(session, name, range(node.partitions))
    return name, topic_id, [surveyed(partition) for partition in partitions]


async def _reassignments(
    session: FencedSession,
) -> dict[TopicPartition, tuple[StandingReassignment, Reassignment]]:
    async def read(place: tuple[str, int]) -> tuple[StandingReassignment, Reassignment] | None:
        name, number = place
        found = await read_reassignment(session, name, number)
        if found is None:
            return None
        wanted = found.value
        return StandingReassignment(name, PartitionId(number), wanted.topic_id, found.version), wanted

    places = await read_moving(session)
    found = await _pipelined(read, places)
    return {TopicPartition(*place): each for place, each in zip(places, found, strict=True) if each}


async def _notices(session: FencedSession, broker: BrokerId) -> tuple[BrokerId, int]:
    node = await session.exists(znodes.elections(broker))
    return broker, 0 if node is None else node.children
