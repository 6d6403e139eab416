"""Reads the state of the whole cluster, and brokers' queues.

An unreadable znode is logged and skipped, as in `facts`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import BulkReads, read_drains, read_reassignment, read_znode
from strandline.adapters.zookeeper.layout import queue_znodes
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


@dataclass(frozen=True, slots=True)
class _SurveyedTopic:
    topic_id: TopicId
    partitions: Sequence[SurveyedPartition]


async def read_survey(session: FencedSession, brokers: Brokers) -> Survey:
    """Reads everything that ZooKeeper has now: about two reads a partition."""
    survey, moving = await _without_topics(session, brokers)
    names = znodes.topic_names(await session.children(znodes.TOPICS))
    found = await _pipelined(partial(_survey_topic, BulkReads(session), moving), names)
    topics = {name: topic for name, topic in zip(names, found, strict=True) if topic is not None}
    return replace(
        survey,
        topics={name: topic.topic_id for name, topic in topics.items()},
        partitions=[partition for topic in topics.values() for partition in topic.partitions],
    )


async def read_survey_again(
    session: FencedSession, brokers: Brokers, last: Survey, changed: Iterable[TopicPartition]
) -> Survey:
    """The present brokers, drains and reassignments, and those partitions that are `changed`, or reassigned
    now or in `last`. The others are as in `last`: the cost is that of the partitions that are read.

    It equals `last` if nothing has changed. A topic that is new, or has grown, is not noticed.
    """
    survey, moving = await _without_topics(session, brokers)
    bulk = BulkReads(session)
    before = (partition.name for partition in last.partitions if partition.reassignment is not None)
    numbers: defaultdict[str, set[int]] = defaultdict(set)
    for name, number in (*changed, *moving, *before):
        numbers[name].add(number)

    async def read(name: str) -> _SurveyedTopic | None:
        return await _survey_topic(bulk, moving, name, numbers[name])

    found = dict(zip(numbers, await _pipelined(read, numbers), strict=True))
    topics = {name: topic_id for name, topic_id in last.topics.items() if name not in found}
    topics |= {name: topic.topic_id for name, topic in found.items() if topic is not None}
    fresh = {each.name: each for topic in found.values() if topic is not None for each in topic.partitions}
    partitions = [
        fresh.pop(each.name, each)
        for each in last.partitions
        if topics.get(each.topic) == each.key.topic_id
        and (each.name in fresh or each.key.partition not in numbers.get(each.topic, ()))
    ]
    return replace(survey, topics=topics, partitions=[*partitions, *fresh.values()])


async def _without_topics(
    session: FencedSession, brokers: Brokers
) -> tuple[Survey, Mapping[TopicPartition, Reassignment]]:
    """What does not grow with the number of partitions, and the reassignment of each partition that has
    one."""
    drains = await read_drains(session)
    reassignments = await _reassignments(session)
    folders = znodes.broker_ids(await session.children(znodes.ELECTIONS))
    noticed = await _pipelined(partial(_notices, session), sorted(folders))
    survey = Survey(
        live=brokers.live,
        known=brokers.known,
        drains=drains,
        topics={},
        partitions=(),
        reassignments=[standing for standing, _ in reassignments.values()],
        noticed={broker: count for broker, count in noticed if count},
    )
    return survey, {name: wanted for name, (_, wanted) in reassignments.items()}


async def _survey_topic(
    session: BulkReads,
    moving: Mapping[TopicPartition, Reassignment],
    name: str,
    numbers: Iterable[int] | None = None,
) -> _SurveyedTopic | None:
    """These partitions of a topic, or all; None if there is no such topic."""
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

    every = range(node.partitions)
    chosen = every if numbers is None else sorted(number for number in numbers if number in every)
    return _SurveyedTopic(topic_id, [surveyed(each) for each in await read_partitions(session, name, chosen)])


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
