"""Adds partitions to a topic: all of them become visible at once, or none, even if the controller dies.

As in a creation, an addition that fits into one `multi` is one. A larger one (about a thousand partitions) is
written while the topic's znode is marked as growing, and the last write sets the new count. The next active
controller finds the mark, and removes the partitions that are not visible yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import structlog

from strandline.adapters.system.crash_points import crash_point
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import read_deletion
from strandline.controller.core.cluster import PlacedTopic
from strandline.controller.core.growth import plan_growth
from strandline.controller.core.placement import ReplicaAssignment
from strandline.controller.core.topics import Brokers
from strandline.controller.term.fenced_session import Deposed
from strandline.controller.term.placements import PlacedPartitions, check_topic, read_placements
from strandline.controller.term.reading import read_topic
from strandline.controller.term.term import Term
from strandline.controller.term.writes import Multi, creation_steps
from strandline.controller.topics.creation import still_there, write_part
from strandline.controller.topics.deletion import removal_steps, write_removal
from strandline.errors import CoordinationError, OutcomeUnknown, StrandlineError, UnknownTopicOrPartition
from strandline.ports import BadVersion, MultiFailed, NodeExists, NoNode, SessionEnded, SetData
from strandline.vocabulary.admin import AlterTopic
from strandline.vocabulary.state_changes import PARTITIONS_ADDED, PARTITIONS_NOT_ADDED

logger = structlog.get_logger(__name__)

ATTEMPTS_MAX: Final = 20
"""Attempts at a write. Each fails only if another request changed the topic between the read and the
write."""

NOTHING: Final = Multi(())


class Growth:
    """The additions of one epoch. They run one after the other, so a topic marked as growing without a
    request was left unfinished."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._one_at_a_time = asyncio.Lock()
        self.left: set[str] = set()
        """Topics with an unfinished addition."""

    async def check(self, asked: AlterTopic) -> int:
        """Returns how many partitions `grow` would add. Raises the error with which it would refuse this."""
        brokers = await self._term.brokers()
        return len(self._plan(await self._read(asked.topic), asked, brokers))

    async def grow(self, asked: AlterTopic) -> None:
        """Grows the topic to this partition count. New partitions get these replicas, or are placed.

        Raises UnknownTopicOrPartition, InvalidTopic, InvalidPartitions, InvalidReplicaAssignment,
        InvalidReplicationFactor, OutcomeUnknown.
        """
        async with self._one_at_a_time:
            for _ in range(ATTEMPTS_MAX):
                brokers = await self._term.brokers()
                topic = await self._read(asked.topic)
                if topic.node.growing:
                    await self._undo(asked.topic)
                elif await self._add(topic, self._plan(topic, asked, brokers), brokers):
                    return
        raise OutcomeUnknown(f"topic {asked.topic!r} was altered by others at the same time, again and again")

    async def resume(self) -> None:
        """Undoes additions that this controller or an earlier one did not finish."""
        for name in sorted(self.left):
            async with self._one_at_a_time:
                logger.info("taking back an addition of partitions that was not finished", topic=name)
                try:
                    await self._undo(name)
                except OutcomeUnknown as error:
                    logger.warning("an addition is not taken back yet", topic=name, reason=error.message)

    # --- carrying it out -----------------------------------------------------------------------

    async def _read(self, name: str) -> PlacedPartitions:
        """Reads the topic and its first partition: all partitions of a topic have the same number of
        replicas."""
        topic = await read_placements(self._term.session, name, [0])
        if await read_deletion(self._term.session, name) == topic.node.topic_id:
            raise UnknownTopicOrPartition(f"topic {name!r} is being deleted")
        if not topic.partitions:
            raise OutcomeUnknown(f"topic {name!r} is not whole: it lacks partition 0")
        return topic

    def _plan(
        self, topic: PlacedPartitions, asked: AlterTopic, brokers: Brokers
    ) -> Sequence[ReplicaAssignment]:
        check_topic(topic.node, topic.name, asked.topic_id)
        return plan_growth(
            topic.name,
            now=topic.node.partitions,
            wanted=asked.partitions,
            replication_factor=len(topic.partitions[0].settled),
            assignments=asked.assignments,
            brokers=brokers,
            picture=self._term.picture,
        )

    async def _add(
        self, topic: PlacedPartitions, added: Sequence[ReplicaAssignment], brokers: Brokers
    ) -> bool:
        """Returns False, and has no effect, if the topic has changed meanwhile."""
        if not added:
            return True
        name, node = topic.name, topic.node
        self._term.picture.grow(name, node.topic_id, added)
        counted = False
        try:
            counted = await self._write(topic, added, brokers)
        finally:
            if not counted:
                self._term.picture.shrink(name, node.topic_id, node.partitions)
        if counted:
            logger.info("partitions added", topic=name, partitions=node.partitions + len(added))
        return counted

    async def _write(
        self, topic: PlacedPartitions, added: Sequence[ReplicaAssignment], brokers: Brokers
    ) -> bool:
        name, node = topic.name, topic.node
        steps = creation_steps(
            name,
            PlacedTopic(node.topic_id, added),
            brokers.staying,
            self._term.stamp(),
            first=node.partitions,
            reason=PARTITIONS_ADDED,
        )
        multis = self._term.pack(steps)
        total = node.partitions + len(added)
        crash_point("controller.grow.before")
        if len(multis) > 1:
            return await self._write_in_parts(topic, total, multis)
        grown = replace(node, partitions=total)
        try:
            await self._set(topic, grown, multis[0])
        except MultiFailed as failed:
            _check_contended(name, failed)
            return False
        crash_point("controller.grow.written")
        return True

    async def _write_in_parts(self, topic: PlacedPartitions, total: int, multis: Sequence[Multi]) -> bool:
        name = topic.name
        try:
            await self._set(topic, replace(topic.node, growing=total))
        except MultiFailed as failed:
            _check_contended(name, failed)
            return False
        self.left.add(name)
        crash_point("controller.grow.marked")
        try:
            for multi in multis:
                await write_part(self._term, multi, znodes.of_incarnation(topic.node.topic_id))
                crash_point("controller.grow.part")
            await self._count(topic, total, still_there(multis))
        except (SessionEnded, Deposed):
            raise
        except StrandlineError as error:
            logger.error("partitions could not be added", topic=name, reason=str(error))
            await self._undo(name)
            if isinstance(error, MultiFailed) and isinstance(error.cause, NoNode):
                raise UnknownTopicOrPartition(f"topic {name!r} was deleted meanwhile") from error
            raise
        self.left.discard(name)
        crash_point("controller.grow.written")
        return True

    async def _count(self, begun: PlacedPartitions, total: int, checks: Multi) -> None:
        """Makes the new partitions visible by the last write. The config may have been altered meanwhile."""
        for _ in range(ATTEMPTS_MAX):
            topic = await self._read(begun.name)
            if topic.node.topic_id != begun.node.topic_id or topic.node.growing != total:
                raise UnknownTopicOrPartition(f"topic {begun.name!r} was deleted meanwhile")
            try:
                await self._set(topic, replace(topic.node, partitions=total, growing=0), checks)
            except MultiFailed as failed:
                _check_contended(begun.name, failed)
            else:
                return
        raise OutcomeUnknown(f"topic {begun.name!r} was altered by others, again and again")

    async def _undo(self, name: str) -> None:
        """Removes the partitions that are not visible. Raises OutcomeUnknown if it has to be tried again
        later."""
        for _ in range(ATTEMPTS_MAX):
            try:
                topic = await self._read(name)
                if topic.node.growing:
                    await self._remove(topic)
            except UnknownTopicOrPartition:
                break  # its deletion removes all of it
            except (MultiFailed, NoNode) as error:
                logger.info("looking again", topic=name, reason=str(error))
                continue
            break
        else:
            raise OutcomeUnknown(f"topic {name!r}: partitions that were not added could not be removed yet")
        self.left.discard(name)

    async def _remove(self, topic: PlacedPartitions) -> None:
        name, node = topic.name, topic.node
        children = await self._term.session.children(znodes.topic(name))
        unseen = sorted(each for each in znodes.numbers(children) if each >= node.partitions)
        steps = await removal_steps(
            self._term, name, node.topic_id, unseen, reason=PARTITIONS_NOT_ADDED, reads=self._term.session
        )
        *parts, last = self._term.pack(steps)
        for part in parts:
            await write_removal(self._term, part, znodes.of_incarnation(node.topic_id))
            crash_point("controller.grow.undo_part")
        await self._set(topic, replace(node, growing=0), last)

    async def _set(self, topic: PlacedPartitions, node: znodes.TopicNode, multi: Multi = NOTHING) -> None:
        """Writes the topic's znode at the version that was read, together with `multi`."""

        async def stands() -> bool:
            return await read_topic(self._term.session, topic.name) == node

        write = SetData(znodes.topic(topic.name), znodes.dump_topic(node), topic.version)
        await self._term.write(multi, stands, before=[write, znodes.of_incarnation(node.topic_id)])


def _check_contended(name: str, failed: MultiFailed) -> None:
    """Raises the refusal's error, unless the topic was altered between the read and the write."""
    if isinstance(failed.cause, NoNode):
        raise UnknownTopicOrPartition(f"topic {name!r} does not exist") from failed
    if isinstance(failed.cause, NodeExists):
        raise CoordinationError(f"topic {name!r} has partitions that are not counted: {failed}") from failed
    if not isinstance(failed.cause, BadVersion):
        raise failed
