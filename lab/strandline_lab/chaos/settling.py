"""Tests if a cluster is healthy again after its last fault, and how soon."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

from strandline import Admin, Producer, TopicPartition
from strandline.adapters.system.clock import SystemClock
from strandline.errors import Outcome, StrandlineError
from strandline.vocabulary.transactions import TransactionState
from strandline_lab.chaos.core.demands import SETTLE_S_MAX
from strandline_lab.chaos.history_lines import HistoryLines
from strandline_lab.chaos.world import World
from strandline_lab.core.settled import first_missing

POLL_S: Final = 0.1
ANSWER_S_MAX: Final = 5.0
REQUEST_TIMEOUT_MS: Final = 2_000
PROBE: Final = "produce-probe"
CLOSED: Final = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
"""The states of a transactional id between two transactions."""


async def settled(world: World, admin: Admin) -> str:
    """The first problem; empty if all members serve and every partition has its full ISR."""
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            return await _missing(world, admin)
    except TimeoutError:
        return f"no answer within {ANSWER_S_MAX:.0f} s"
    except StrandlineError as error:
        return f"{type(error).__name__}: {error}"


async def _missing(world: World, admin: Admin) -> str:
    for member in world.members:
        if not await world.alive(member):
            return f"{member} is dead"
    cluster = await admin.describe_cluster()
    serving = {broker.endpoint.id for broker in cluster.brokers if broker.alive and not broker.shutting_down}
    for member in world.members:
        if member.role == "broker" and member.number not in serving:
            return f"{member} does not serve"
    if missing := first_missing(await admin.describe_topics(), await admin.list_reassignments()):
        return missing
    return "a balance is under way" if (await admin.describe_balance()).state.is_under_way else ""


async def until_settled(
    world: World, deadline_s: float = SETTLE_S_MAX, heard: Callable[[str], object] = lambda _: None
) -> str:
    """Returns once the cluster is healthy, or at the deadline with the problem. Each problem seen meanwhile
    is passed to `heard`."""
    clock = SystemClock()
    deadline = clock.monotonic() + deadline_s
    settings = world.client_settings
    async with Admin(world.bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS, **settings) as admin:
        while missing := await settled(world, admin):
            heard(missing)
            if clock.monotonic() >= deadline:
                return missing
            await clock.sleep(POLL_S)
    return ""


async def unwritable(
    world: World, partitions: Sequence[TopicPartition], out: Path, deadline_s: float = SETTLE_S_MAX
) -> list[TopicPartition]:
    """Writes one record to each partition. Returns once all are acknowledged, or at the deadline with the
    partitions that lack one. The history `produce-probe.jsonl` has what was sent."""
    clock = SystemClock()
    sequence = itertools.count()
    refused: list[TopicPartition] = []
    deadline = clock.monotonic() + deadline_s

    async def probe(file: TextIO, producer: Producer, record: int, name: TopicPartition) -> None:
        lines = HistoryLines(name.topic, file, clock, sequence)
        value = b"probe-%d" % record
        lines.sent(record, None, value)
        outcome = Outcome.UNKNOWN
        try:
            async with asyncio.timeout(deadline - clock.monotonic()):
                future = await producer.send(name.topic, value, partition=name.partition)
                answer = await future
        except (StrandlineError, TimeoutError) as error:
            if isinstance(error, StrandlineError):
                outcome = error.outcome
            refused.append(name)
            lines.failed(record, -1, type(error).__name__, outcome, str(error))
        else:
            lines.acked(record, answer.partition, answer.offset)

    try:
        with (out / f"{PROBE}.jsonl").open("a") as file:
            async with (
                Producer(
                    world.bootstrap, delivery_timeout_ms=int(deadline_s * 1000), **world.client_settings
                ) as producer,
                asyncio.TaskGroup() as tasks,
            ):
                for record, name in enumerate(partitions):
                    tasks.create_task(probe(file, producer, record, name))
    except StrandlineError:  # no broker answered while the producer started
        return list(partitions)
    return sorted(refused)


async def partitions_of(admin: Admin, topics: Sequence[str], deadline_s: float) -> list[TopicPartition]:
    """The partitions that these topics have now. Raises StrandlineError if no broker answers in time."""
    clock = SystemClock()
    deadline = clock.monotonic() + deadline_s
    while True:
        try:
            described = await admin.metadata(topics)
        except StrandlineError:
            if clock.monotonic() >= deadline:
                raise
            await clock.sleep(POLL_S)
        else:
            return [
                TopicPartition(topic.name, each.partition)
                for topic in described.topics
                for each in topic.partitions
            ]


async def behind(world: World, topics: Mapping[str, str], deadline_s: float) -> list[str]:
    """Waits until these groups have committed all of their topics, which get no more writes. Returns what is
    still uncommitted at the deadline. `topics`: by group."""
    clock = SystemClock()
    deadline = clock.monotonic() + deadline_s
    settings = world.client_settings
    async with Admin(world.bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS, **settings) as admin:
        while missing := await _behind(admin, topics):
            if clock.monotonic() >= deadline:
                return missing
            await clock.sleep(POLL_S)
    return []


async def open_transactions(world: World, deadline_s: float) -> list[str]:
    """Waits until no coordinator has an open transaction. Returns what is open at the deadline."""
    clock = SystemClock()
    deadline = clock.monotonic() + deadline_s
    settings = world.client_settings
    async with Admin(world.bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS, **settings) as admin:
        while opened := await _opened(admin):
            if clock.monotonic() >= deadline:
                return opened
            await clock.sleep(POLL_S)
    return []


async def _opened(admin: Admin) -> list[str]:
    try:
        listed = await admin.list_transactions()
    except StrandlineError as error:
        return [f"{type(error).__name__}: {error}"]
    return [f"{each.transactional_id} is {each.state.value}" for each in listed if each.state not in CLOSED]


async def _behind(admin: Admin, topics: Mapping[str, str]) -> list[str]:
    missing: list[str] = []
    try:
        described = {topic.name: topic for topic in await admin.describe_topics(sorted({*topics.values()}))}
        for group, topic in topics.items():
            committed = await admin.group_offsets(group)
            for each in described[topic].partitions:
                found = committed.get(TopicPartition(topic, each.partition))
                offset = 0 if found is None else found.offset
                if each.high_watermark is None or offset < each.high_watermark:
                    missing.append(f"{group}: {topic}-{each.partition} {offset} of {each.high_watermark}")
    except StrandlineError as error:
        return [f"{type(error).__name__}: {error}"]
    return missing
