"""Runs unclean elections on request: for partitions without a leader, the longest live log becomes leader."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout.queue_znodes import ElectionNotice
from strandline.config.limits import TOPIC_CHANGES_IN_FLIGHT_MAX
from strandline.controller.core.unclean import UncleanPlan, plan_unclean
from strandline.controller.leadership.transfer import LOOK_AGAIN_S
from strandline.controller.term.notices import leave_notices
from strandline.controller.term.placements import (
    PlacedPartitions,
    check_topic,
    read_placements,
    unknown_partition,
)
from strandline.controller.term.reading import read_partitions
from strandline.controller.term.term import Term
from strandline.errors import (
    ElectionNotNeeded,
    InvalidRequest,
    RequestTimedOut,
    StrandlineError,
    UnknownTopicOrPartition,
)
from strandline.ids import (
    NO_BROKER,
    BrokerId,
    LeaderEpoch,
    PartitionId,
    PartitionKey,
    TopicId,
    TopicPartition,
)
from strandline.serving.asked import asked_by
from strandline.tasks import pipelined
from strandline.vocabulary.admin import ElectUnclean, UncleanElection

logger = structlog.get_logger(__name__)

WAIT_S_MAX: Final = 8.0
"""Time for the chosen replicas to lead; shorter than a client's request timeout."""

REASON: Final = "unclean election, asked for"


@dataclass(frozen=True, slots=True)
class _Wanted:
    name: TopicPartition
    key: PartitionKey
    epoch: LeaderEpoch
    """The epoch of the last leader."""
    plan: UncleanPlan


async def elect_unclean(
    term: Term, asked: ElectUnclean, repeated: Collection[TopicPartition] = ()
) -> list[UncleanElection]:
    """Asks for elections, and waits. An outcome without an error is a partition that has a leader; with
    `validate_only`, one that would get a leader.

    Returns one outcome for each partition asked for, in order. Without any it covers all partitions, and
    returns the outcomes of those without a leader.
    """
    names, ids = asked.partitions, dict(zip(asked.partitions, asked.topic_ids, strict=False))
    outcomes: dict[TopicPartition, UncleanElection] = {}
    for name in repeated:
        twice = InvalidRequest(f"partition {name} stands more than once in the request")
        outcomes[name] = UncleanElection(name, twice)
    brokers = await term.brokers()
    wanted: list[_Wanted] = []
    for topic, numbers in (await _read(term, [n for n in names if n not in outcomes], bool(names))).items():
        for number in numbers.asked:
            name = TopicPartition(topic, number)
            try:
                there = numbers.there(number)
                check_topic(there.node, topic, ids.get(name, ""))
                plan = plan_unclean(name, there.partitions[number], brokers)
            except ElectionNotNeeded as error:
                if names:
                    outcomes[name] = UncleanElection(name, error)
            except StrandlineError as error:
                outcomes[name] = UncleanElection(name, error)
            else:
                key = PartitionKey(there.node.topic_id, PartitionId(number))
                epoch = there.partitions[number].state.leader_epoch
                wanted.append(_Wanted(name, key, epoch, plan))
                outcomes[name] = _election(name, plan, there.node.topic_id)
    if not asked.validate_only:
        outcomes |= await _have_elected(term, wanted)
    return [outcomes[name] for name in names or sorted(outcomes)]


async def _have_elected(term: Term, wanted: Sequence[_Wanted]) -> dict[TopicPartition, UncleanElection]:
    notices: defaultdict[BrokerId, list[ElectionNotice]] = defaultdict(list)
    by = asked_by()
    for each in wanted:
        notice = ElectionNotice(each.name.topic, each.key, each.epoch, reason=REASON, unclean=True, by=by)
        notices[each.plan.chosen.broker].append(notice)
        logger.warning(
            "unclean election asked for",
            partition=str(each.name),
            broker=each.plan.chosen.broker,
            known=str(each.plan.loss),
            missing=list(each.plan.missing),
        )
    await leave_notices(term.session, notices)
    deadline = term.clock.monotonic() + WAIT_S_MAX
    left = list(wanted)
    while True:

        async def led(each: _Wanted) -> bool:
            found = await read_partitions(term.session, each.name.topic, [each.name.partition])
            return all(
                there.state.leader_epoch > each.epoch and there.state.leader != NO_BROKER for there in found
            )

        done = await pipelined(led, left, in_flight_max=TOPIC_CHANGES_IN_FLIGHT_MAX)
        left = [each for each, is_led in zip(left, done, strict=True) if not is_led]
        if not left or term.clock.monotonic() >= deadline:
            break
        await term.clock.sleep(LOOK_AGAIN_S)
    return {each.name: UncleanElection(each.name, _late(each)) for each in left}


def _election(name: TopicPartition, plan: UncleanPlan, topic_id: TopicId) -> UncleanElection:
    chosen, loss = plan.chosen, plan.loss
    return UncleanElection(
        name,
        broker=chosen.broker,
        last_epoch=chosen.last_epoch,
        log_end=loss.first,
        known_end=loss.end,
        known=str(loss),
        missing=plan.missing,
        topic_id=topic_id,
    )


def _late(each: _Wanted) -> RequestTimedOut:
    return RequestTimedOut(
        f"{each.name}: broker {each.plan.chosen.broker} does not lead after {WAIT_S_MAX:.0f} s; it may yet"
    )


@dataclass(frozen=True, slots=True)
class _Topic:
    """A topic as it is now, or the error that reading it raised."""

    found: PlacedPartitions | StrandlineError
    asked: Sequence[int]

    def there(self, number: int) -> PlacedPartitions:
        """The topic's partitions. Raises UnknownTopicOrPartition if partition `number` does not exist."""
        if isinstance(self.found, StrandlineError):
            raise self.found
        if number not in self.found.partitions:
            raise unknown_partition(self.found, number)
        return self.found


async def _read(term: Term, names: Sequence[TopicPartition], some: bool) -> dict[str, _Topic]:
    """Reads the topics of these partitions if `some`; otherwise all topics."""
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for name in names:
        numbers[name.topic].append(name.partition)
    topics = sorted(numbers) if some else znodes.topic_names(await term.session.children(znodes.TOPICS))

    async def read(topic: str) -> _Topic:
        try:
            found = await read_placements(term.session, topic, numbers[topic] if some else None)
        except UnknownTopicOrPartition as error:
            return _Topic(error, numbers[topic] if some else ())
        return _Topic(found, numbers[topic] if some else sorted(found.partitions))

    found = await pipelined(read, topics, in_flight_max=TOPIC_CHANGES_IN_FLIGHT_MAX)
    return dict(zip(topics, found, strict=True))
