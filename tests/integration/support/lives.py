"""The records in `__state_changes` of a whole run, and their checks.

A request has one life and one end (CORRECTNESS Q2), an epoch one election, and each change of an ISR begins
where the one before it ended. The checks are pure: each returns sentences that name the request or the
partition; none means that the records are sound. `judged` checks a cluster at its end, once its brokers are
whole and their queues empty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes, queue_znodes
from strandline.auditing.checks import Finding
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.ids import PartitionId, PartitionKey, TopicPartition
from strandline.local.cluster import LocalCluster
from strandline.ports import NoNode
from strandline.tasks import pipelined
from strandline.vocabulary.metadata import PartitionState
from strandline.vocabulary.state_changes import (
    ENDS,
    LEGAL,
    ChangeKind,
    Command,
    RequestState,
    StateChangeEvent,
)
from strandline_lab.auditing import leader_epochs
from tests.integration.support.harness import ClusterHarness, Harness, watching
from tests.integration.support.state_changes import reading_events
from tests.waiting import eventually

SETTLE_S_MAX = 60.0
SHOWN = 20

_FACTS = frozenset({*Command, ChangeKind.ELECT_LEADER, ChangeKind.RESIGN_LEADER, ChangeKind.CHANGE_ISR})
"""Commands of which all records of one identity are equal: one compare-and-set decided their content."""


@dataclass(frozen=True, slots=True)
class Present:
    """A partition as ZooKeeper has it at the end."""

    name: TopicPartition
    key: PartitionKey
    state: PartitionState
    moving: bool = False


@dataclass(slots=True)
class Lives:
    """All records, in the order of the topic, with repetitions; and the final state."""

    records: list[StateChangeEvent] = field(default_factory=list)
    waiting: dict[str, str] = field(default_factory=dict)
    """Requests that are in a queue still; whose, and what they are about."""
    present: list[Present] = field(default_factory=list)

    def first(self) -> list[StateChangeEvent]:
        """As every reader takes it: of one identity the first counts."""
        found: dict[tuple[str, str], StateChangeEvent] = {}
        for event in self.records:
            found.setdefault(event.identity, event)
        return list(found.values())


def faults(lives: Lives) -> list[str]:
    """All that is wrong with a lives that is over."""
    events = lives.first()
    return [
        *(f"{request} waits still, {about}" for request, about in lives.waiting.items()),
        *contradicted(lives.records),
        *unfinished(events),
        *out_of_order(events),
        *usurped(events),
        *disconnected(events),
        *elected_out_of_sync(events),
        *unrecorded(events, lives.present),
        *moves_without_an_end(events, lives.present),
    ]


# --- requests ---------------------------------------------------------------------------------


def contradicted(records: Iterable[StateChangeEvent]) -> list[str]:
    """Records of one identity that differ."""
    first: dict[tuple[str, str], StateChangeEvent] = {}
    return [
        f"{event.id} was recorded as {first[event.identity]}, then as {event}"
        for event in records
        if event.command in _FACTS and first.setdefault(event.identity, event) != event
    ]


def _lives(events: Iterable[StateChangeEvent]) -> Mapping[str, Sequence[StateChangeEvent]]:
    found: defaultdict[str, list[StateChangeEvent]] = defaultdict(list)
    for event in events:
        if isinstance(event.command, Command):
            found[event.id].append(event)
    return found


def unfinished(events: Iterable[StateChangeEvent]) -> list[str]:
    """Requests that were never made, that have no end, or more than one."""
    found = []
    for request, life in _lives(events).items():
        states = {event.state for event in life}
        ends = sorted(state.value for state in states & ENDS)
        if len(ends) != 1:
            found.append(f"{request} has {len(ends)} ends {ends}: {life}")
        if RequestState.REQUESTED not in states:
            found.append(f"{request} was never requested: {life}")
    return found


def out_of_order(events: Iterable[StateChangeEvent]) -> list[str]:
    """Requests whose steps are no legal path in the order of their times, or are about different things."""
    order = list(RequestState)
    found = []
    for request, life in _lives(events).items():
        path = sorted(life, key=lambda event: (event.at_ms, order.index(event.state)))
        found += [
            f"{request} was {before.state.value} at {before.at_ms}, then {after.state.value} at {after.at_ms}"
            for before, after in pairwise(path)
            if after.state not in LEGAL[before.state]
        ]
        if len({(e.command, e.topic, e.key, e.broker, e.epoch, e.requester) for e in life}) != 1:
            found.append(f"{request} is about different things: {life}")
    return found


# --- leaders and their ISR --------------------------------------------------------------------


def usurped(events: Iterable[StateChangeEvent]) -> list[str]:
    """Epochs with no election or two, and actions in an epoch by a broker that did not win it."""
    return _said(leader_epochs.not_elected(leader_epochs.epochs_in(events)))


def disconnected(events: Iterable[StateChangeEvent]) -> list[str]:
    """Changes of an ISR that do not begin where the one before ended: a change in between was not
    recorded."""
    return _said(leader_epochs.disconnected(leader_epochs.epochs_in(events)))


def elected_out_of_sync(events: Iterable[StateChangeEvent]) -> list[str]:
    """Elections, none of them unclean, of brokers that were not in the last ISR, or that added one to it
    (CORRECTNESS E2, I1)."""
    return _said(leader_epochs.elected_out_of_sync(leader_epochs.epochs_in(events)))


def _said(found: Iterable[Finding]) -> list[str]:
    return [f"{each.topic}-{each.partition}: {each.detail}" for each in found]


# --- what ZooKeeper has at the end ------------------------------------------------------------


def unrecorded(events: Iterable[StateChangeEvent], present: Collection[Present]) -> list[str]:
    """Events in an `isr` znode that are in no record."""
    events = list(events)
    identities = {event.identity for event in events}
    recorded_epochs = leader_epochs.epochs_in(events)
    found = []
    for partition in present:
        state, name = partition.state, partition.name
        found += [
            f"{name}: {event.id} stands in its trail only"
            for event in state.trail
            if event.identity not in identities
        ]
        if state.leader_epoch < 0:
            continue
        recorded = recorded_epochs.get(partition.key, {}).get(state.leader_epoch)
        if recorded is None or not recorded.elections:
            found.append(f"{name}: no record says who was elected in epoch {state.leader_epoch}")
        elif recorded.last_isr != set(state.isr_ids):
            found.append(
                f"{name}, epoch {state.leader_epoch}: in sync is {state.isr_ids}, "
                f"and recorded was {sorted(recorded.last_isr)}"
            )
    return found


def moves_without_an_end(events: Iterable[StateChangeEvent], present: Collection[Present]) -> list[str]:
    """Reassignments of partitions that are still there, that neither stand nor ended once."""
    over = {partition.key for partition in present if not partition.moving}
    states: defaultdict[str, set[RequestState]] = defaultdict(set)
    for event in events:
        if event.command is ChangeKind.REASSIGN and event.key in over:
            states[event.id].add(event.state)
    return [
        f"reassignment {request} has no end, or more than one: {sorted(s.value for s in found_states)}"
        for request, found_states in states.items()
        if len(found_states & ENDS) != 1
    ]


# --- a cluster --------------------------------------------------------------------------------


async def waiting(harness: ClusterHarness) -> dict[str, str]:
    """The requests in all queues."""
    found: dict[str, str] = {}
    for broker in harness.cluster.broker_ids:
        queue = znodes.state_queue(broker)
        for entry in await harness.session.children(queue):
            try:
                node = await harness.session.get(f"{queue}/{entry}")
            except NoNode:
                continue  # its broker works it off just now
            for change in queue_znodes.load_state_changes(node.data):
                found[change.request_id] = f"in the queue of broker {broker}: {change}"
    return found


async def present(harness: ClusterHarness) -> list[Present]:
    """Every partition that there is."""
    session = harness.session

    async def of_topic(topic: str) -> list[Present]:
        try:
            node = znodes.load_topic(topic, (await session.get(znodes.topic(topic))).data)
            return [await of_partition(topic, node, number) for number in range(node.partitions)]
        except NoNode:
            return []  # deleted meanwhile

    async def of_partition(topic: str, node: znodes.TopicNode, number: int) -> Present:
        name = TopicPartition(topic, number)
        data = (await session.get(znodes.isr(*name))).data
        moving = await session.exists(znodes.reassigned(*name)) is not None
        key = PartitionKey(node.topic_id, PartitionId(number))
        return Present(name, key, isr_znodes.load_isr(topic, number, data), moving)

    topics = await session.children(znodes.TOPICS)
    found = await pipelined(of_topic, topics, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
    return [partition for partitions in found for partition in partitions]


async def judge(harness: ClusterHarness, *, deadline_s: float = SETTLE_S_MAX) -> Lives:
    """Wait until all of the cluster's events are recorded, and check them."""
    lives, found = Lives(), ["nothing was read"]

    async def sound() -> bool:
        nonlocal lives, found
        queued, partitions = await waiting(harness), await present(harness)
        await reader.to_the_end()
        lives = Lives([*reader.events, *reader.again], queued, partitions)
        found = faults(lives)
        return not found

    async with reading_events(harness) as reader:
        try:
            await eventually(sound, deadline_s=deadline_s)
        except AssertionError:
            shown = "\n".join(found[:SHOWN])
            raise AssertionError(f"{len(found)} faults in the records, the first:\n{shown}") from None
    return lives


@asynccontextmanager
async def judged(cluster: LocalCluster, **settings: Any) -> AsyncIterator[Harness]:
    """A cluster to be harmed whose lives is judged at the end, unless a test left it useless. `settings` are
    those of the session that watches it."""
    async with watching(cluster, **settings) as harness:
        yield harness
        if harness.usable:
            await harness.heal()
            if await harness.session.children(znodes.TOPICS):
                await judge(harness)
