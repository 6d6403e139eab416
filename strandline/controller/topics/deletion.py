"""Deletes a topic: marks it first, then removes it in steps that the next active controller can continue.

A partition's znodes are deleted in the same `multi` that queues `delete-replica` for all of its replicas, so
each replica gets exactly one request. From then on no replica can be elected, since an election
compares-and-sets the `isr` znode. A leader stops when it takes its request from its queue. The request names
the topic by its id, so a new topic of the same name is safe (CORRECTNESS Q1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import structlog

from strandline.adapters.system.crash_points import crash_point
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import read_deletion, read_isr, read_reassignment, read_replicas
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.controller.term.fenced_session import FencedSession
from strandline.controller.term.placements import check_topic, read_moving_of
from strandline.controller.term.reading import read_topic
from strandline.controller.term.term import Term
from strandline.controller.term.writes import Multi, Step, deletion_step
from strandline.controller.topics.mutations import count_mutations
from strandline.errors import OutcomeUnknown, UnknownTopicOrPartition
from strandline.ids import PartitionId, PartitionKey, TopicId
from strandline.ports import Check, Create, Delete, MultiFailed, NodeExists, NoNode
from strandline.tasks import pipelined
from strandline.vocabulary.reassignment_events import reassignment_dropped
from strandline.vocabulary.state_changes import TOPIC_DELETED, StateChangeEvent

logger = structlog.get_logger(__name__)

ATTEMPTS_MAX: Final = 20
"""Attempts at a write. Each fails only if an election, or another deletion of the topic, came between the
read and the write. The next reconcile does what is left after the last attempt."""


async def mark_for_deletion(session: FencedSession, name: str, wanted_id: str = "") -> TopicId:
    """Marks the topic; from now on every active controller will delete it. Raises UnknownTopicOrPartition,
    also for a topic with another id than the wanted one, and ThrottlingQuotaExceeded."""
    node = await read_topic(session, name)
    if node is not None:
        check_topic(node, name, wanted_id)
    if node is None or node.partitions == 0:
        raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
    marker = znodes.delete_topic(name)

    async def marked() -> bool:
        return await session.exists(marker) is not None

    if not await marked():  # its partitions were counted by the request that marked it
        count_mutations(name, node.partitions)
    try:
        await session.write(
            [Check(znodes.topic(name)), Create(marker, znodes.dump_deletion(node.topic_id))], marked
        )
    except MultiFailed as failed:
        if isinstance(failed.cause, NoNode):
            raise UnknownTopicOrPartition(f"topic {name!r} does not exist") from failed
        if not isinstance(failed.cause, NodeExists):
            raise
    crash_point("controller.delete.marked")
    return node.topic_id


async def remove_topic(term: Term, name: str, topic_id: TopicId) -> None:
    """Removes what is left of a marked topic, and its marker.

    Raises OutcomeUnknown if other writers came in between again and again, Deposed, SessionEnded.
    """
    for _ in range(ATTEMPTS_MAX):
        try:
            await _remove(term, name, topic_id)
            return
        except (MultiFailed, NoNode) as error:
            logger.info("deletion looks again", topic=name, reason=str(error))
    raise OutcomeUnknown(f"the deletion of topic {name!r} is under way and will be finished later")


async def _remove(term: Term, name: str, topic_id: TopicId) -> None:
    session = term.session
    path, marker = znodes.topic(name), znodes.delete_topic(name)

    async def gone() -> bool:
        node = await read_topic(session, name)
        return node is None or node.topic_id != topic_id

    incarnation = znodes.of_incarnation(topic_id)
    fenced = await session.exists(incarnation.path) is not None  # unless an operator removed it
    fence = [incarnation] if fenced else []
    if await gone():
        await _remove_marker(session, name, topic_id)
        return
    numbers = sorted(znodes.numbers(await session.children(path)))
    events = await _unrecorded(term, name, numbers)
    steps = await removal_steps(term, name, topic_id, numbers, reason=TOPIC_DELETED)
    # After the partitions: once AR was read, no request can start a reassignment.
    moving = await read_moving_of(session, name)
    if moving is not None:
        events |= await _ends(term, name, moving)
        folder = znodes.reassigned_topic(name)
        paths = [*(znodes.reassigned(name, number) for number in sorted(moving)), folder]
        steps += [Step((Delete(each),), {}) for each in paths]
    *parts, last = term.pack(_keeping(term, step, events) for step in steps)
    for part in parts:
        await write_removal(term, part, *fence)
        term.unrecorded.written(part.operations)
        crash_point("controller.delete.part")
    rest = [Delete(path), Delete(marker), *(Delete(each.path) for each in fence)]
    await term.write(last, gone, after=rest)
    term.unrecorded.written(last.operations)
    crash_point("controller.delete.removed")


async def _unrecorded(term: Term, name: str, numbers: Iterable[int]) -> dict[str, Sequence[StateChangeEvent]]:
    """The events in the `isr` znodes of these partitions, by the znodes' paths: a leader that is gone may
    not have recorded them. One that is recorded twice counts once."""

    async def read(number: int) -> tuple[str, Sequence[StateChangeEvent]]:
        found = await read_isr(term.session, name, number)
        return znodes.isr(name, number), () if found is None else found.value.trail

    return dict(await pipelined(read, numbers, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX))


async def _ends(term: Term, name: str, moving: Iterable[int]) -> dict[str, Sequence[StateChangeEvent]]:
    """The ends of the reassignments of these partitions by the paths of their znodes: their leaders, which
    would record them, stop."""

    async def read(number: int) -> tuple[str, Sequence[StateChangeEvent]] | None:
        found = await read_reassignment(term.session, name, number)
        if found is None:
            return None
        key = PartitionKey(found.value.topic_id, PartitionId(number))
        events = reassignment_dropped(name, key, found.value, at_ms=term.stamp().at_ms, reason=TOPIC_DELETED)
        return znodes.reassigned(name, number), events

    found = await pipelined(read, sorted(moving), in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
    return dict(each for each in found if each is not None)


def _keeping(term: Term, step: Step, events: Mapping[str, Sequence[StateChangeEvent]]) -> Step:
    """The same step, which keeps the events of the znodes that it removes: no broker has them."""
    kept = [event for each in step.operations for event in events.get(each.path, ())]
    return replace(step, operations=(*step.operations, *term.unrecorded.keeping(kept)))


async def removal_steps(
    term: Term, name: str, topic_id: TopicId, numbers: Iterable[int], *, reason: str
) -> list[Step]:
    """Steps that remove those of these partitions that still exist."""

    async def read(number: int) -> Step | None:
        path = znodes.partition(name, number)
        try:
            children = await term.session.children(path)
        except NoNode:
            return None
        found = await read_replicas(term.session, name, number)
        assigned, version = ((), -1) if found is None else (found.value, found.version)
        # `isr` sorts first, and disappears only with its partition. Unlike `leader`, it therefore shows that
        # a write with a lost answer was carried out. AR is deleted at the version read, so new replicas get a
        # request too.
        versions = {znodes.replicas(name, number): version}
        inside = (f"{path}/{child}" for child in sorted(children))
        operations = [*(Delete(each, versions.get(each, -1)) for each in inside), Delete(path)]
        return deletion_step(name, topic_id, number, operations, assigned, term.stamp(), reason)

    found = await pipelined(read, numbers, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
    return [step for step in found if step is not None]


async def write_removal(term: Term, part: Multi, *checks: Check) -> None:
    """Writes some of the steps of `removal_steps`: by now the paths may be those of another topic."""
    await term.write(part, partial(term.session.is_absent, part.operations[0].path), after=checks)


async def _remove_marker(session: FencedSession, name: str, topic_id: TopicId) -> None:
    """Removes the marker of a topic that is gone: another controller finished its deletion, or an operator
    removed it."""
    marker = znodes.delete_topic(name)
    if await read_deletion(session, name) == topic_id:
        await session.write([Delete(marker)], partial(session.is_absent, marker))


async def read_deletions(session: FencedSession) -> list[tuple[str, TopicId]]:
    """All topics with a deletion marker."""

    async def read(name: str) -> tuple[str, TopicId] | None:
        topic_id = await read_deletion(session, name)
        return None if topic_id is None else (name, topic_id)

    names = znodes.topic_names(await session.children(znodes.DELETE_TOPICS))
    found = await pipelined(read, names, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
    return [marked for marked in found if marked is not None]
