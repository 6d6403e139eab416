"""Creates topics, each completely or not at all, even if the controller dies between two steps.

Most topics fit into one `multi`, which creates as many of a request's topics as it has room for. If it is
refused because of one of them, the others are written again without that one. A larger topic (about a
thousand partitions and more) is written under a marker that schedules its deletion. The last `multi` removes
the marker and sets the topic's partition count. Until then the count is missing, so no reader treats it as a
topic, and the next active controller finds the marker and removes the topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import structlog

from strandline.adapters.system.crash_points import crash_point
from strandline.adapters.zookeeper import znodes
from strandline.config.limits import TOPIC_CHANGES_IN_FLIGHT_MAX, ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.controller.core.cluster import PlacedTopic
from strandline.controller.core.topics import Brokers, TopicPlan
from strandline.controller.term.batches import write_batched
from strandline.controller.term.fenced_session import FencedSession
from strandline.controller.term.reading import read_topic
from strandline.controller.term.term import BrokerForgotten, Term
from strandline.controller.term.writes import Multi, Step, Whole, creation_steps
from strandline.controller.topics.deletion import remove_topic
from strandline.controller.topics.marking import MarkedTopic
from strandline.errors import CoordinationError, StrandlineError, TopicAlreadyExists
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
from strandline.tasks import Slices, pipelined

logger = structlog.get_logger(__name__)


class NewIncarnation(NamedTuple):
    """A topic that is to be created: its plan, and the id that it gets."""

    plan: TopicPlan
    topic_id: TopicId


class _Large(NamedTuple):
    """A topic that does not fit into one multi."""

    name: str
    node: znodes.TopicNode
    steps: Sequence[Step]


async def create_topics(
    term: Term, topics: Iterable[NewIncarnation], brokers: Brokers
) -> dict[TopicId, StrandlineError]:
    """Writes the topics, and queues a start for each replica. Returns the errors of those that were not
    created: TopicAlreadyExists, BrokerForgotten, Deposed, SessionEnded, MultiFailed. The brokers' queues must
    exist.

    Topics of the same names that were deleted before this call had leaders with lower epochs than these will
    have (CORRECTNESS E17). Raises SessionEnded; then none was created.
    """
    above = await _last_epoch(term.session)
    slices = Slices(term.clock)
    small: list[Whole[tuple[str, TopicId]]] = []
    large: list[_Large] = []
    for plan, topic_id in topics:
        if slices.used_up:
            await slices.next()
        name, placed = plan.name, PlacedTopic(topic_id, plan.assignments)
        node = znodes.TopicNode(topic_id, len(plan.assignments), plan.config, above_epoch=above)
        steps = creation_steps(name, placed, brokers.staying, term.stamp())
        topic = Step([Create(znodes.topic(name), znodes.dump_topic(node)), Create(znodes.topic_id(topic_id))])
        whole = Whole.of([topic, *steps], (name, topic_id))
        if whole.fits(term.settings.multi_bytes_max):
            small.append(whole)
        else:
            large.append(_Large(name, node, steps))
    if small:
        crash_point("controller.create.before")
    refused = await write_batched(term, small, partial(_any_stands, term.session), _written)
    errors = {topic_id: _refusal(name, error) for (name, topic_id), error in refused}

    async def create(each: _Large) -> None:
        crash_point("controller.create.before")
        try:
            await _create_in_parts(term, each.name, each.node, term.pack(each.steps))
        except StrandlineError as error:
            errors[each.node.topic_id] = error
        else:
            crash_point("controller.create.written")

    await pipelined(create, large, in_flight_max=TOPIC_CHANGES_IN_FLIGHT_MAX)
    return errors


def _written(topics: Sequence[tuple[str, TopicId]]) -> None:
    crash_point("controller.create.written")


async def _any_stands(session: FencedSession, topics: Sequence[tuple[str, TopicId]]) -> bool:
    """True if one of these topics exists with its id. They are written together, and some may have been
    deleted since."""

    async def stands(topic_id: TopicId) -> bool:
        return await session.exists(znodes.topic_id(topic_id)) is not None

    ids = [topic_id for _, topic_id in topics]
    return any(await pipelined(stands, ids, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX))


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
        raise _refusal(name, failed) from failed
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
        await remove_topic(term, MarkedTopic(name, node.topic_id, node.partitions))
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


def _refusal(name: str, error: StrandlineError) -> StrandlineError:
    """The error of a topic that was not written."""
    if isinstance(error, MultiFailed) and isinstance(error.cause, NodeExists):
        return TopicAlreadyExists(f"topic {name!r} exists already, or is still being deleted")
    return error
