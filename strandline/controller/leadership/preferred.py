"""Elects preferred leaders on request: asks leaders that are not the first of AR to hand over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import read_drains
from strandline.config.limits import TOPIC_CHANGES_IN_FLIGHT_MAX
from strandline.controller.core.election import check_preferred, is_led
from strandline.controller.core.reassignment import Placed
from strandline.controller.core.topics import Brokers
from strandline.controller.leadership.transfer import LOOK_AGAIN_S, Yielding, yield_leaderships
from strandline.controller.term.placements import PlacedPartitions, read_placements, unknown_partition
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
    PartitionId,
    PartitionKey,
    TopicId,
    TopicPartition,
)
from strandline.serving.asked import asked_by
from strandline.tasks import pipelined
from strandline.vocabulary.admin import PartitionResult

WAIT_S_MAX: Final = 8.0
"""Time for leaders to hand over; shorter than a client's request timeout."""

REASON: Final = "preferred leader, asked for"


@dataclass(frozen=True, slots=True)
class _There:
    """A partition that exists."""

    name: TopicPartition
    topic_id: TopicId
    now: Placed

    @property
    def preferred(self) -> BrokerId:
        return self.now.assigned[0]


async def elect_preferred(
    term: Term, names: Sequence[TopicPartition], repeated: Collection[TopicPartition] = ()
) -> list[PartitionResult]:
    """Asks leaders to hand over, and waits. An outcome without an error is a partition that its preferred
    leader leads.

    Returns one outcome for each of `names`, in order. Without names it covers all partitions, and returns the
    outcomes of those that another broker leads.
    """
    brokers = await term.brokers()
    drained = (await read_drains(term.session)).keys()
    outcomes: dict[TopicPartition, PartitionResult] = {}
    for name in repeated:
        twice = InvalidRequest(f"partition {name} stands more than once in the request")
        outcomes[name] = PartitionResult(name, twice)
    found = await _read(term, [name for name in names if name not in outcomes] if names else None)
    wanted: list[_There] = []
    for name, there in found.items():
        try:
            if isinstance(there, StrandlineError):
                raise there
            check_preferred(name, there.now, brokers, drained)
            wanted.append(there)
        except ElectionNotNeeded as error:
            if names:
                outcomes[name] = PartitionResult(name, error)
        except StrandlineError as error:
            outcomes[name] = PartitionResult(name, error)
    outcomes |= await _have_elected(term, wanted, brokers)
    return [outcomes[name] for name in names or sorted(outcomes)]


async def _have_elected(
    term: Term, wanted: Sequence[_There], brokers: Brokers
) -> dict[TopicPartition, PartitionResult]:
    if not wanted:
        return {}
    deadline = term.clock.monotonic() + WAIT_S_MAX
    led = [_yielding(each) for each in wanted if is_led(each.now, brokers)]
    await yield_leaderships(term, led, REASON, wait_s=WAIT_S_MAX)
    leaders = dict.fromkeys((each.name for each in wanted), NO_BROKER)
    while True:
        left = {each.name: each for each in wanted if leaders[each.name] != each.preferred}
        found = await _read(term, list(left))
        brokers = await term.brokers()
        leaders |= {
            name: NO_BROKER
            if isinstance(there, StrandlineError) or not is_led(there.now, brokers)
            else there.now.state.leader
            for name, there in found.items()
        }
        late = term.clock.monotonic() >= deadline
        if late or all(leaders[each.name] == each.preferred for each in wanted):
            return {each.name: _outcome(each, leaders[each.name]) for each in wanted}
        await term.clock.sleep(LOOK_AGAIN_S)


def _outcome(each: _There, leader: BrokerId) -> PartitionResult:
    if leader == each.preferred:
        return PartitionResult(each.name)
    leads = "no broker leads" if leader == NO_BROKER else f"broker {leader} leads"
    error = RequestTimedOut(
        f"{each.name}: {leads}, broker {each.preferred} does not after {WAIT_S_MAX:.0f} s; it may yet"
    )
    return PartitionResult(each.name, error)


async def _read(
    term: Term, names: Sequence[TopicPartition] | None
) -> dict[TopicPartition, _There | StrandlineError]:
    """Reads these partitions, or all."""
    topics: dict[str, list[int] | None] = {}
    if names is None:
        topics = dict.fromkeys(znodes.topic_names(await term.session.children(znodes.TOPICS)))
    else:
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for name in names:
            numbers[name.topic].append(name.partition)
        topics.update(numbers)

    async def read(name: str) -> PlacedPartitions | StrandlineError:
        try:
            return await read_placements(term.session, name, topics[name])
        except UnknownTopicOrPartition as error:
            return error

    found: dict[TopicPartition, _There | StrandlineError] = {}
    read_ones = await pipelined(read, topics, in_flight_max=TOPIC_CHANGES_IN_FLIGHT_MAX)
    for (topic_name, asked), topic in zip(topics.items(), read_ones, strict=True):
        if isinstance(topic, StrandlineError):
            found |= {TopicPartition(topic_name, number): topic for number in asked or ()}
            continue
        for number in topic.partitions if asked is None else asked:
            key, there = TopicPartition(topic_name, number), topic.partitions.get(number)
            found[key] = unknown_partition(topic, number)
            if there is not None:
                found[key] = _There(key, topic.node.topic_id, there)
    return found


def _yielding(each: _There) -> Yielding:
    state = each.now.state
    key = PartitionKey(each.topic_id, PartitionId(each.name.partition))
    return Yielding(each.name.topic, key, state.leader, state.leader_epoch, each.preferred, asked_by())
