"""Deletes marked topics in steps that the next active controller can continue. One `multi` removes as many
topics as it has room for; a larger topic is removed in several.

A partition's znodes are deleted in the same `multi` that queues `delete-replica` for all of its replicas, so
each replica gets exactly one request. From then on no replica can be elected, since an election
compares-and-sets the `isr` znode. A leader stops when it takes its request from its queue. The request names
the topic by its id, so a new topic of the same name is safe (CORRECTNESS Q1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import structlog

from strandline.adapters.system.crash_points import crash_point
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import (
    BulkReads,
    Reader,
    read_deletion,
    read_isr,
    read_reassignment,
    read_replicas,
)
from strandline.config.limits import PARTITIONS_PER_TOPIC_MAX, ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.controller.term.batches import MULTIS_IN_FLIGHT_MAX, write_batched
from strandline.controller.term.fenced_session import FencedSession
from strandline.controller.term.placements import read_moving_of
from strandline.controller.term.reading import read_topic
from strandline.controller.term.term import Term
from strandline.controller.term.writes import Multi, Step, Whole, deletion_step
from strandline.controller.topics.marking import MarkedTopic
from strandline.errors import OutcomeUnknown, StrandlineError
from strandline.ids import PartitionId, PartitionKey, TopicId
from strandline.ports import Check, Delete, MultiFailed, NoNode
from strandline.tasks import pipelined
from strandline.vocabulary.reassignment_events import reassignment_dropped
from strandline.vocabulary.state_changes import TOPIC_DELETED, StateChangeEvent

logger = structlog.get_logger(__name__)

ATTEMPTS_MAX: Final = 20
"""Attempts at a write. Each fails only if an election, or another deletion of the topic, came between the
read and the write. The next reconcile does what is left after the last attempt."""

LOT_PARTITIONS_MAX: Final = 2_000
"""Partitions whose znodes are read before the first of them are removed; a topic with more is alone."""


@dataclass(frozen=True, slots=True)
class _Removal:
    """A topic that is about to be removed."""

    topic: MarkedTopic
    fence: Sequence[Check]
    """Checks that it is this incarnation; none if an operator removed the znode for that."""


async def remove_topic(term: Term, topic: MarkedTopic) -> None:
    """As `remove_topics`, but raises the error."""
    for error in (await remove_topics(term, [topic])).values():
        raise error


async def remove_topics(term: Term, topics: Iterable[MarkedTopic]) -> dict[MarkedTopic, StrandlineError]:
    """Removes what is left of these marked topics, and their markers.

    Returns the errors of those that were not removed: OutcomeUnknown if other writers came in between again
    and again, Deposed, SessionEnded.
    """
    errors: dict[MarkedTopic, StrandlineError] = {}

    async def remove(left: list[MarkedTopic]) -> None:
        for _ in range(ATTEMPTS_MAX):
            failed, left = await _remove(term, left), []
            for topic, error in failed.items():
                if isinstance(error, MultiFailed | NoNode):
                    left.append(topic)
                else:
                    errors[topic] = error
            if not left:
                return
        for topic in left:
            what = f"the deletion of topic {topic.name!r}"
            errors[topic] = OutcomeUnknown(f"{what} is under way and will be finished later")

    await pipelined(remove, _lots(topics), in_flight_max=MULTIS_IN_FLIGHT_MAX)
    return errors


def _lots(topics: Iterable[MarkedTopic]) -> list[list[MarkedTopic]]:
    """Distributes these to lots that are read at once."""
    lots: list[list[MarkedTopic]] = []
    room = 0
    for each in topics:
        size = each.partitions or PARTITIONS_PER_TOPIC_MAX
        if size > room:
            lots.append([])
            room = LOT_PARTITIONS_MAX
        lots[-1].append(each)
        room -= size
    return lots


async def _remove(term: Term, topics: Sequence[MarkedTopic]) -> dict[MarkedTopic, StrandlineError]:
    """Tries once to remove these. Returns the errors of the others; one with MultiFailed or NoNode has
    changed since it was read."""
    reads = BulkReads(term.session)
    failed: dict[MarkedTopic, StrandlineError] = {}

    async def plan(topic: MarkedTopic) -> Whole[_Removal] | None:
        try:
            return await _plan(term, reads, topic)
        except StrandlineError as error:
            failed[topic] = error
            return None

    found = await pipelined(plan, topics, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
    small: list[Whole[_Removal]] = []
    large: list[Whole[_Removal]] = []
    for planned in found:
        if planned is not None:
            (small if planned.fits(term.settings.multi_bytes_max) else large).append(planned)
    refused = await write_batched(term, small, partial(_all_gone, term.session), partial(_written, term))
    failed |= {removal.topic: error for removal, error in refused}
    for each in large:
        try:
            await _remove_in_parts(term, each)
        except StrandlineError as error:
            failed[each.meant.topic] = error
    for topic, reason in failed.items():
        logger.info("topic not deleted yet", topic=topic.name, reason=str(reason))
    return failed


async def _plan(term: Term, reads: Reader, topic: MarkedTopic) -> Whole[_Removal] | None:
    """The steps that remove a topic; None if it is gone already. Raises NoNode if it changed meanwhile."""
    session = term.session
    name, topic_id, _ = topic
    path, marker = znodes.topic(name), znodes.delete_topic(name)
    incarnation = znodes.of_incarnation(topic_id)
    fence = [incarnation] if await session.exists(incarnation.path) is not None else []
    if await _is_gone(session, topic):
        await _remove_marker(session, name, topic_id)
        _forget(term, topic)
        return None
    numbers = sorted(znodes.numbers(await reads.children(path)))
    events = await _unrecorded(reads, name, numbers)
    steps = await removal_steps(term, name, topic_id, numbers, reason=TOPIC_DELETED, reads=reads)
    # After the partitions: once AR was read, no request can start a reassignment.
    moving = await read_moving_of(reads, name)
    if moving is not None:
        events |= await _ends(term, reads, name, moving)
        folder = znodes.reassigned_topic(name)
        paths = [*(znodes.reassigned(name, number) for number in sorted(moving)), folder]
        steps += [Step([Delete(each)]) for each in paths]
    steps = [_keeping(step, events) for step in steps]
    rest = Step([Delete(path), Delete(marker), *(Delete(each.path) for each in fence)])
    return Whole.of([*steps, rest], _Removal(topic, fence))


async def _remove_in_parts(term: Term, whole: Whole[_Removal]) -> None:
    """Removes a topic that does not fit into one multi. The next controller continues after any of them."""
    removal = whole.meant
    *parts, last = term.pack(whole.steps)
    for part in parts:
        await write_removal(term, part, *removal.fence)
        crash_point("controller.delete.part")
    await term.write(last, partial(_is_gone, term.session, removal.topic))
    _written(term, [removal])


def _written(term: Term, removals: Sequence[_Removal]) -> None:
    crash_point("controller.delete.removed")
    for each in removals:
        _forget(term, each.topic)


def _forget(term: Term, topic: MarkedTopic) -> None:
    term.picture.remove(topic.name, topic.topic_id)
    logger.info("topic deleted", topic=topic.name, topic_id=topic.topic_id)


async def _is_gone(session: FencedSession, topic: MarkedTopic) -> bool:
    node = await read_topic(session, topic.name)
    return node is None or node.topic_id != topic.topic_id


async def _all_gone(session: FencedSession, removals: Sequence[_Removal]) -> bool:
    """True if all are gone; another request may have removed some of them."""
    topics = [each.topic for each in removals]
    return all(
        await pipelined(partial(_is_gone, session), topics, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
    )


async def _unrecorded(
    reads: Reader, name: str, numbers: Iterable[int]
) -> dict[str, Sequence[StateChangeEvent]]:
    """The events in the `isr` znodes of these partitions, by the znodes' paths: a leader that is gone may
    not have recorded them. One that is recorded twice counts once."""

    async def read(number: int) -> tuple[str, Sequence[StateChangeEvent]]:
        found = await read_isr(reads, name, number)
        return znodes.isr(name, number), () if found is None else found.value.trail

    return dict(await pipelined(read, numbers, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX))


async def _ends(
    term: Term, reads: Reader, name: str, moving: Iterable[int]
) -> dict[str, Sequence[StateChangeEvent]]:
    """The ends of the reassignments of these partitions by the paths of their znodes: their leaders, which
    would record them, stop."""

    async def read(number: int) -> tuple[str, Sequence[StateChangeEvent]] | None:
        found = await read_reassignment(reads, name, number)
        if found is None:
            return None
        key = PartitionKey(found.value.topic_id, PartitionId(number))
        events = reassignment_dropped(name, key, found.value, at_ms=term.stamp().at_ms, reason=TOPIC_DELETED)
        return znodes.reassigned(name, number), events

    found = await pipelined(read, sorted(moving), in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
    return dict(each for each in found if each is not None)


def _keeping(step: Step, events: Mapping[str, Sequence[StateChangeEvent]]) -> Step:
    """The same step, which keeps the events of the znodes that it removes: no broker has them."""
    return replace(step, keeps=[event for each in step.operations for event in events.get(each.path, ())])


async def removal_steps(
    term: Term, name: str, topic_id: TopicId, numbers: Iterable[int], *, reason: str, reads: Reader
) -> list[Step]:
    """Steps that remove those of these partitions that still exist."""

    async def read(number: int) -> Step | None:
        path = znodes.partition(name, number)
        try:
            children = await reads.children(path)
        except NoNode:
            return None
        found = await read_replicas(reads, name, number)
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


async def read_deletions(session: FencedSession) -> list[MarkedTopic]:
    """All topics with a deletion marker."""

    async def read(name: str) -> MarkedTopic | None:
        topic_id = await read_deletion(session, name)
        if topic_id is None:
            return None
        node = await read_topic(session, name)
        return MarkedTopic(name, topic_id, 0 if node is None else max(node.partitions, node.growing))

    names = znodes.topic_names(await session.children(znodes.DELETE_TOPICS))
    found = await pipelined(read, names, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
    return [marked for marked in found if marked is not None]
