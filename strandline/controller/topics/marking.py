"""Marks topics for deletion. A marked topic is deleted, if not by this controller then by the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from strandline.adapters.system.crash_points import crash_point
from strandline.adapters.zookeeper import znodes
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.controller.term.batches import write_batched
from strandline.controller.term.fenced_session import FencedSession
from strandline.controller.term.placements import check_topic
from strandline.controller.term.reading import read_topic
from strandline.controller.term.term import Term
from strandline.controller.term.writes import Step, Whole
from strandline.controller.topics.mutations import count_mutations
from strandline.errors import StrandlineError, UnknownTopicOrPartition
from strandline.ids import TopicId
from strandline.ports import Check, Create, MultiFailed, NodeExists, NoNode
from strandline.tasks import pipelined


class MarkedTopic(NamedTuple):
    """A topic that is marked for deletion."""

    name: str
    topic_id: TopicId
    partitions: int
    """How many it may have; 0 if that is not known."""


async def mark_for_deletion(
    term: Term, wanted: Mapping[str, str]
) -> tuple[list[MarkedTopic], dict[str, StrandlineError]]:
    """Marks these topics; from now on every active controller will delete them. `wanted` has the id that each
    is to have, or "".

    Returns the marked ones, and the errors of the others: UnknownTopicOrPartition, also for a topic with
    another id than the wanted one, ThrottlingQuotaExceeded, Deposed, SessionEnded. Raises SessionEnded; then
    none was marked.
    """
    session = term.session
    read = partial(read_topic, session)
    nodes = await pipelined(read, wanted, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
    before = set(await session.children(znodes.DELETE_TOPICS))
    found: list[MarkedTopic] = []
    errors: dict[str, StrandlineError] = {}
    for (name, wanted_id), node in zip(wanted.items(), nodes, strict=True):
        try:
            if node is not None:
                check_topic(node, name, wanted_id)
            if node is None or node.partitions == 0:
                raise _unknown(name)
            if name not in before:  # its partitions were counted by the request that marked it
                count_mutations(name, node.partitions)
        except StrandlineError as error:
            errors[name] = error
        else:
            found.append(MarkedTopic(name, node.topic_id, max(node.partitions, node.growing)))
    marks = [Whole.of([_mark(each)], each) for each in found]
    for each, refusal in await write_batched(term, marks, partial(_all_marked, session), _marked):
        cause = refusal.cause if isinstance(refusal, MultiFailed) else None
        if not isinstance(cause, NodeExists):
            errors[each.name] = _unknown(each.name) if isinstance(cause, NoNode) else refusal
    return [each for each in found if each.name not in errors], errors


def _mark(topic: MarkedTopic) -> Step:
    marker = znodes.delete_topic(topic.name)
    return Step([Check(znodes.topic(topic.name)), Create(marker, znodes.dump_deletion(topic.topic_id))])


async def _all_marked(session: FencedSession, topics: Sequence[MarkedTopic]) -> bool:
    """True if all are marked; another request may have marked some of them."""

    async def marked(topic: MarkedTopic) -> bool:
        return await session.exists(znodes.delete_topic(topic.name)) is not None

    return all(await pipelined(marked, topics, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX))


def _marked(topics: Sequence[MarkedTopic]) -> None:
    crash_point("controller.delete.marked")


def _unknown(name: str) -> UnknownTopicOrPartition:
    return UnknownTopicOrPartition(f"topic {name!r} does not exist")
