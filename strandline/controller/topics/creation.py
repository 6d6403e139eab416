"""Creates a topic completely or not at all, even if the controller dies between two steps.

Most topics fit into one `multi`. A larger one (about a thousand partitions and more) is written under a
marker that schedules its deletion. The last `multi` removes the marker and sets the topic's partition count.
Until then the count is missing, so no reader treats it as a topic, and the next active controller finds the
marker and removes the topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import structlog

from strandline.adapters.system.crash_points import crash_point
from strandline.adapters.zookeeper import znodes
from strandline.controller.core.cluster import PlacedTopic
from strandline.controller.core.topics import Brokers, TopicPlan
from strandline.controller.term.fenced_session import FencedSession
from strandline.controller.term.reading import read_topic
from strandline.controller.term.term import BrokerForgotten, Term
from strandline.controller.term.writes import Multi, creation_steps
from strandline.controller.topics.deletion import remove_topic
from strandline.errors import CoordinationError, TopicAlreadyExists
from strandline.ids import NO_EPOCH, LeaderEpoch, TopicId
from strandline.ports import (
    Check,
    Create,
    Delete,
    MultiFailed,
    NodeExists,
    NoNode,
    SessionEnded,
    SetData,
)

logger = structlog.get_logger(__name__)


async def create_topic(term: Term, plan: TopicPlan, topic_id: TopicId, brokers: Brokers) -> None:
    """Writes the topic and queues a start for each replica. The brokers' queues must exist.

    Raises TopicAlreadyExists, Deposed, SessionEnded, MultiFailed.
    """
    name = plan.name
    placed = PlacedTopic(topic_id, plan.assignments)
    multis = term.pack(creation_steps(name, placed, brokers.staying, term.stamp()))
    above = await _last_epoch(term.session)
    node = znodes.TopicNode(topic_id, len(plan.assignments), plan.config, above_epoch=above)

    async def stands() -> bool:
        return await read_topic(term.session, name) == node

    crash_point("controller.create.before")
    if len(multis) > 1:
        await _create_in_parts(term, name, node, multis)
    else:
        topic = Create(znodes.topic(name), znodes.dump_topic(node))
        try:
            await term.write(multis[0], stands, before=[topic, Create(znodes.topic_id(topic_id))])
        except MultiFailed as failed:
            raise _refused(name, failed) from failed
    crash_point("controller.create.written")


async def _last_epoch(session: FencedSession) -> LeaderEpoch:
    """The last epoch that was taken: the leaders of a topic that is created after this have higher ones."""
    try:
        return znodes.last_epoch(await session.get(znodes.EPOCH))
    except (NoNode, znodes.UnreadableZnode):
        return NO_EPOCH


async def _create_in_parts(term: Term, name: str, node: znodes.TopicNode, multis: Sequence[Multi]) -> None:
    session = term.session
    path, marker = znodes.topic(name), znodes.delete_topic(name)
    empty = replace(node, partitions=0)

    async def begun() -> bool:
        return await read_topic(session, name) == empty

    async def stands() -> bool:
        return await read_topic(session, name) == node

    try:
        await session.write(
            [
                Create(marker, znodes.dump_deletion(node.topic_id)),
                Create(path, znodes.dump_topic(empty)),
                Create(znodes.topic_id(node.topic_id)),
            ],
            begun,
        )
    except MultiFailed as failed:
        raise _refused(name, failed) from failed
    crash_point("controller.create.marked")
    try:
        for multi in multis:
            await write_part(term, multi)
            crash_point("controller.create.part")
        visible = SetData(path, znodes.dump_topic(node), version=0)
        await term.write(still_there(multis), stands, before=[visible, Delete(marker)])
    except SessionEnded:
        raise
    except (BrokerForgotten, CoordinationError) as error:
        logger.error("creation failed, removing what was written", topic=name, reason=str(error))
        await remove_topic(term, name, node.topic_id)
        raise


def still_there(multis: Sequence[Multi]) -> Multi:
    """Checks that none of the brokers that these give replicas to was forgotten since: nothing counts
    partitions of a topic that are not visible yet."""
    adds = {broker for multi in multis for broker in multi.adds}
    return Multi([Check(znodes.state_queue(broker)) for broker in sorted(adds)], adds=adds)


async def write_part(term: Term, multi: Multi, *checks: Check) -> None:
    """Writes some partitions of a topic that is not visible yet."""

    async def written() -> bool:
        return await term.session.exists(multi.operations[0].path) is not None

    await term.write(multi, written, after=checks)


def _refused(name: str, failed: MultiFailed) -> CoordinationError | TopicAlreadyExists:
    if isinstance(failed.cause, NodeExists):
        return TopicAlreadyExists(f"topic {name!r} exists already, or is still being deleted")
    return failed
