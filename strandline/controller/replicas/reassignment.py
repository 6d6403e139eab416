"""Reassigns replicas: the controller starts a reassignment, and the partition's leader carries it out.

One `multi` a partition creates `/brokers/partitions_reassigned/[topic]/[partition]`, adds the new replicas to
AR, and queues a start for every replica. The leader wakes up and reads both znodes. From then on the leader,
or its successor, does the work; no controller is needed until the end (Kafka's design V3).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import structlog

from strandline.adapters.system.crash_points import crash_point
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import read_deletion, read_replicas
from strandline.adapters.zookeeper.layout import reassignment_znodes
from strandline.config.limits import TOPIC_CHANGES_IN_FLIGHT_MAX, ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.controller.core.doubts import doubts
from strandline.controller.core.reassignment import Asked, MoveContext, Placed, forgotten, grown, plan_move
from strandline.controller.core.topics import Brokers
from strandline.controller.core.upkeep.deadlines import deadline_of
from strandline.controller.term.placements import (
    PlacedPartitions,
    check_topic,
    read_moving,
    read_placements,
    unknown_partition,
)
from strandline.controller.term.reading import read_topic
from strandline.controller.term.results import for_user
from strandline.controller.term.term import BrokerForgotten, Term
from strandline.controller.term.writes import Multi, Stamp, Step, Subject, pack_each, requests
from strandline.errors import InvalidRequest, OutcomeUnknown, StrandlineError, UnknownTopicOrPartition
from strandline.ids import PartitionId, PartitionKey, TopicPartition
from strandline.ports import BadVersion, Check, Create, MultiFailed, NodeExists, NoNode, Operation, SetData
from strandline.tasks import pipelined
from strandline.vocabulary.admin import OngoingReassignment, PartitionReassignment, PartitionResult
from strandline.vocabulary.metadata import Reassignment
from strandline.vocabulary.reassignment_events import reassignment_asked, reassignment_forgotten
from strandline.vocabulary.state_changes import Command

logger = structlog.get_logger(__name__)

ATTEMPTS_MAX: Final = 20
"""Attempts at a write. Each fails only if the topic's config, its size, or the same partition's replicas
changed between the read and the write."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """A partition that gets another AR, and the content of its znode."""

    name: TopicPartition
    now: Placed
    wanted: Reassignment


class Reassignments:
    """The reassignments of one controller epoch."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._moving: dict[TopicPartition, object] = {}
        """Partitions that moved at the last look, or began to move since. The value identifies one
        beginning."""

    async def ask(
        self,
        moves: Sequence[PartitionReassignment],
        repeated: Collection[TopicPartition] = (),
        *,
        throttle_bytes_per_s: int = 0,
        validate_only: bool = False,
        timeout_ms: int = 0,
        cancel_at_deadline: bool = False,
        cause: str = "",
    ) -> list[PartitionResult]:
        """Returns one outcome a partition, in order. Without an error, the reassignment has begun or is
        unnecessary. `timeout_ms`, `cancel_at_deadline`: see `Reassign`; `cause`: what the moves are part of.

        Raises InvalidRequest if the moves are to be taken back at a deadline, and have none."""
        outcomes: dict[TopicPartition, PartitionResult] = {}
        for name in repeated:
            twice = InvalidRequest(f"partition {name} stands more than once in the request")
            outcomes[name] = PartitionResult(name, twice)
        left = [move for move in moves if move.name not in outcomes]
        brokers = await self._term.brokers()
        stamp = self._term.stamp()
        default_ms = self._term.settings.reassignment_timeout_ms
        deadline = deadline_of(timeout_ms, default_ms, stamp.at_ms, cancels=cancel_at_deadline)
        if cancel_at_deadline and deadline is None:
            raise InvalidRequest(
                f"cancel_at_deadline needs a deadline: timeout_ms = {timeout_ms} is none"
                f"{'' if timeout_ms else ' while reassignment_timeout_ms of the controller is 0'}"
            )
        asked = Asked(
            "",
            stamp.at_ms,
            throttle_bytes_per_s,
            stamp.by,
            deadline,
            renews=timeout_ms != 0 or cancel_at_deadline,
            cause=cause,
        )
        for _ in range(ATTEMPTS_MAX):
            planned, settled = await self._plan(left, brokers, asked, stamp)
            outcomes |= {outcome.name: outcome for outcome in settled}
            if validate_only:
                outcomes |= {each.name: PartitionResult(each.name) for _, each in planned}
                planned = []
            await self._ensure_folders([each for _, each in planned])
            work = partial(self._write, outcomes)
            multis = pack_each(planned, self._term.settings.multi_bytes_max)
            await pipelined(work, multis, in_flight_max=TOPIC_CHANGES_IN_FLIGHT_MAX)
            left = [move for move in left if move.name not in outcomes]
            if not left:
                break
            brokers = await self._term.brokers()  # one of them may have been forgotten
        for move in left:
            contended = OutcomeUnknown(f"{move.name} was changed by others at the same time, again and again")
            outcomes[move.name] = PartitionResult(move.name, contended)
        return [_with_doubts(outcomes[move.name], move, brokers) for move in moves]

    async def ongoing(self) -> list[OngoingReassignment]:
        """All partitions whose replicas move."""
        await self._term.session.sync()
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for name, number in await read_moving(self._term.session):
            numbers[name].append(number)
        found: list[OngoingReassignment] = []
        for name, moving in sorted(numbers.items()):
            try:
                topic = await read_placements(self._term.session, name, moving)
            except UnknownTopicOrPartition:
                continue  # it is being deleted
            found += [
                OngoingReassignment(
                    TopicPartition(name, number),
                    wanted.original,
                    wanted.replicas,
                    placed.state.isr_ids,
                    wanted.throttle_bytes_per_s,
                    wanted.reverting,
                    0 if wanted.deadline is None else wanted.deadline.at_ms,
                    wanted.is_overdue,
                )
                for number, placed in sorted(topic.partitions.items())
                if (wanted := placed.wanted) is not None
            ]
        return found

    async def follow(self) -> None:
        """Finds out which reassignments have ended: leaders end them without notifying the controller."""
        before = dict(self._moving)
        now = dict.fromkeys(TopicPartition(*place) for place in await read_moving(self._term.session))

        async def look(name: TopicPartition) -> None:
            node = await read_topic(self._term.session, name.topic)
            assigned = await read_replicas(self._term.session, *name)
            if node is not None and assigned is not None:
                self._term.picture.place(name.topic, node.topic_id, name.partition, assigned.value)

        ended = [name for name in before if name not in now]
        await pipelined(look, ended, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        for name in ended:
            if self._moving.get(name) is before[name]:  # otherwise a new one has begun meanwhile
                del self._moving[name]
        for name in now:
            self._moving.setdefault(name, object())

    # --- carrying them out ---------------------------------------------------------------------

    async def _plan(
        self, moves: Sequence[PartitionReassignment], brokers: Brokers, asked: Asked, stamp: Stamp
    ) -> tuple[list[tuple[Step, _Planned]], list[PartitionResult]]:
        """Returns the steps to write, and the outcomes of requests that were refused or need no write."""
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for move in moves:
            numbers[move.name.topic].append(move.name.partition)

        async def read(name: str) -> PlacedPartitions | StrandlineError:
            try:
                return await self._read(name, numbers[name])
            except UnknownTopicOrPartition as error:
                return error

        found = await pipelined(read, numbers, in_flight_max=TOPIC_CHANGES_IN_FLIGHT_MAX)
        topics = dict(zip(numbers, found, strict=True))
        planned: list[tuple[Step, _Planned]] = []
        settled: list[PartitionResult] = []
        for move in moves:
            topic = topics[move.name.topic]
            try:
                if isinstance(topic, StrandlineError):
                    raise topic
                wanted = self._plan_one(move, topic, brokers, replace(asked, request_id=stamp.new_id()))
            except StrandlineError as error:
                settled.append(PartitionResult(move.name, error))
                continue
            if wanted is None:
                settled.append(PartitionResult(move.name))
            else:
                now = topic.partitions[move.name.partition]
                each = _Planned(move.name, now, wanted)
                planned.append((_step(each, topic, stamp, self._keeping(each)), each))
        return planned, settled

    def _plan_one(
        self, move: PartitionReassignment, topic: PlacedPartitions, brokers: Brokers, asked: Asked
    ) -> Reassignment | None:
        check_topic(topic.node, topic.name, move.topic_id)
        now = topic.partitions.get(move.name.partition)
        if now is None:
            raise unknown_partition(topic, move.name.partition)
        context = MoveContext(brokers, self._term.picture.replicas, topic.node.topic_id)
        return plan_move(move, now, context, asked)

    def _keeping(self, each: _Planned) -> list[Operation]:
        """The operations that keep the events of targets which the znode forgets: the leader will not record
        them (CORRECTNESS Q5)."""
        standing, state = each.now.wanted, each.now.state
        count = forgotten(standing, each.wanted)
        if standing is None or not count:
            return []
        key = _key(each.name, standing)
        return self._term.unrecorded.keeping(
            reassignment_forgotten(each.name.topic, key, standing, count, state.leader, state.leader_epoch)
        )

    async def _read(self, name: str, numbers: Sequence[int]) -> PlacedPartitions:
        """Raises UnknownTopicOrPartition, also for a topic that is being deleted."""
        topic = await read_placements(self._term.session, name, numbers)
        if await read_deletion(self._term.session, name) == topic.node.topic_id:
            raise UnknownTopicOrPartition(f"topic {name!r} is being deleted")
        return topic

    async def _ensure_folders(self, planned: Sequence[_Planned]) -> None:
        """Creates the topics' folders. Leaders remove a folder with its last child, so it may be missing
        again."""

        async def ensure(name: str) -> None:
            path = znodes.reassigned_topic(name)

            async def exists() -> bool:
                return await self._term.session.exists(path) is not None

            if await exists():
                return
            try:
                await self._term.session.write([Check(znodes.topic(name)), Create(path)], exists)
            except MultiFailed as failed:
                if not isinstance(failed.cause, NodeExists | NoNode):
                    raise

        names = sorted({each.name.topic for each in planned if each.now.wanted is None})
        await pipelined(ensure, names, in_flight_max=TOPIC_CHANGES_IN_FLIGHT_MAX)

    async def _write(
        self, outcomes: dict[TopicPartition, PartitionResult], packed: tuple[Multi, Sequence[_Planned]]
    ) -> None:
        """Writes all of one multi or none. A partition that another request changed stays without an
        outcome."""
        multi, planned = packed
        crash_point("controller.reassign.before")
        try:
            await self._term.write(multi, partial(self._stand, planned))
        except (MultiFailed, BrokerForgotten) as failed:
            if isinstance(failed, MultiFailed) and not isinstance(
                failed.cause, BadVersion | NoNode | NodeExists
            ):
                raise
            logger.info("a reassignment looks again", first=str(planned[0].name), reason=str(failed))
            return
        except StrandlineError as error:
            outcomes |= {each.name: PartitionResult(each.name, for_user(error)) for each in planned}
            return
        crash_point("controller.reassign.written")
        self._term.unrecorded.written(multi.operations)
        for each in planned:
            self._begun(each)
            outcomes[each.name] = PartitionResult(each.name)

    async def _stand(self, planned: Sequence[_Planned]) -> bool:
        """True if these were written. One partition stands for all, since a multi is atomic."""
        first = planned[0]
        try:
            node = await self._term.session.get(znodes.reassigned(*first.name))
        except NoNode:
            assigned = await read_replicas(self._term.session, *first.name)
            return assigned is not None and assigned.value == first.wanted.target  # it has ended already
        return node.data == reassignment_znodes.dump_reassignment(first.wanted)

    def _begun(self, each: _Planned) -> None:
        name, wanted = each.name, each.wanted
        self._moving[name] = object()
        assigned = grown(each.now.assigned, wanted)
        self._term.picture.place(name.topic, wanted.topic_id, name.partition, assigned)
        if each.now.wanted is None or each.now.wanted.request_id != wanted.request_id:
            state = each.now.state
            self._term.recorder.record(
                reassignment_asked(name.topic, _key(name, wanted), wanted, state.leader, state.leader_epoch)
            )
        logger.info(
            "reassignment under way",
            partition=str(name),
            replicas=list(wanted.target),
            assigned=list(assigned),
            reverting=wanted.reverting,
        )


def _with_doubts(outcome: PartitionResult, move: PartitionReassignment, brokers: Brokers) -> PartitionResult:
    if outcome.error is not None or not move.replicas:
        return outcome
    return replace(outcome, warnings=doubts(str(move.name), move.replicas, brokers))


def _step(each: _Planned, topic: PlacedPartitions, stamp: Stamp, keeping: Sequence[Operation]) -> Step:
    """The operations that start a reassignment, or change its target.

    The topic's version is checked, since its bounds were used to validate the target. AR is written even if
    it stays the same: an election that has not read the reassignment then fails.
    """
    name, now, wanted = each.name, each.now, each.wanted
    path, data = znodes.reassigned(*name), reassignment_znodes.dump_reassignment(wanted)
    assigned = grown(now.assigned, wanted)
    standing: Operation = Create(path, data)
    if now.wanted is not None:
        standing = SetData(path, data, now.wanted_version)
    operations = (
        Check(znodes.topic(name.topic), topic.version),
        znodes.of_incarnation(wanted.topic_id),
        standing,
        SetData(znodes.replicas(*name), znodes.dump_replicas(assigned), now.assigned_version),
        *keeping,
    )
    subject = Subject(name.topic, _key(name, wanted), now.state.leader_epoch)
    reason = "reassignment taken back" if wanted.reverting else "replicas reassigned"
    if now.wanted is not None and (now.wanted.request_id, now.wanted.reverting) == (
        wanted.request_id,
        wanted.reverting,
    ):
        reason = "reassignment throttled"
    added = [broker for broker in assigned if broker not in now.assigned]
    return Step(operations, requests(Command.START_REPLICA, subject, assigned, stamp, reason), added)


def _key(name: TopicPartition, wanted: Reassignment) -> PartitionKey:
    return PartitionKey(wanted.topic_id, PartitionId(name.partition))
