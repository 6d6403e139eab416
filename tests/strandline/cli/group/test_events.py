"""`strandline group events`: the lines, the order of several partitions, and the command as users run it."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
from collections.abc import AsyncIterator, Sequence
from datetime import date, datetime
from typing import Any

import pytest

from strandline import Consumer, ConsumerRecord
from strandline.adapters.system.clock import SystemClock
from strandline.cli.group.events import WAITING_RECORDS_MAX, Merge
from strandline.client.events.writer import EventWriter
from strandline.ids import GROUP_EVENTS_TOPIC, TopicPartition
from strandline.local.cluster import LocalCluster
from strandline.report.text.group_events import line_of, read_event
from tests.conftest import ClusterFactory
from tests.integration.groups.support.group_members import GROUP_SETTINGS
from tests.integration.groups.support.member_calls import member_transport
from tests.strandline.cli.support.cli_process import start
from tests.strandline.cli.support.shell import Shell
from tests.waiting import eventually

DAY = date(2026, 11, 20)
AT = int(datetime(2026, 11, 20, 10, 31, 2, 123_000).timestamp() * 1000)
FOLLOWED_S_MAX = 30
SEVERAL = {"group_events_topic_partitions": 3}
P, Q = TopicPartition("e", 0), TopicPartition("e", 1)

Fields = dict[str, Any]


def event(kind: str = "task_running", group: str = "g", /, **facts: Any) -> Fields:
    return {"version": 1, "event": kind, "group": group, "generation": 7, "at_ms": AT, **facts}


def value(fields: object) -> bytes:
    return json.dumps(fields).encode()


# --- lines --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            event("rebalance_started", reason="m joined", caused_by="m"),
            "rebalance_started   g  generation 7  -  -  m joined, caused by m",
        ),
        (
            event("revoked", member="m", partitions={"u": [1], "t": [0, 1, 4]}, reason="they move"),
            "revoked             g  generation 7  m  t:0-1,4 u:1  they move",
        ),
        (
            event("task_progress", member="m", task="counts-3", lag=120_000, records_per_s=52_000.4,
                  remaining_ms=2_308, reason="slow"),
            "task_progress       g  generation 7  m  counts-3  lag 120000, 52000 records/s, 2.3 s left, slow",
        ),
        (
            event("task_ready", member="m", task="counts-3", lag=0, records_per_s=0.25),
            "task_ready          g  generation 7  m  counts-3  lag 0, 0.2 records/s",
        ),
        (event("generation_ended"), "generation_ended    g  generation 7  -  -"),
        (event("member_blessed", member="m", halo=3), "member_blessed      g  generation 7  m  -"),
        (event(member="m", task="t\x1b[2J"), "task_running        g  generation 7  m  t [2J"),
        (event(task="t-0", lag="much", records_per_s=None), "task_running        g  generation 7  -  t-0"),
        (event("assigned", partitions=[3]), "assigned            g  generation 7  -  [3]"),
    ],
)  # fmt: skip
def test_a_line_has_the_fields_that_its_event_has(fields: Fields, line: str) -> None:
    """Also of events and fields that only later versions know, or that have something else in them."""
    assert line_of(fields, DAY) == f"10:31:02.123  {line}"


@pytest.mark.parametrize("at_ms", [2**62, -(2**62), 10**30])
def test_a_members_clock_may_say_anything(at_ms: int) -> None:
    assert line_of(event(at_ms=at_ms), DAY).startswith(f"{at_ms} ms  task_running")


def test_another_day_is_named() -> None:
    assert line_of(event(), date(2026, 11, 21)).startswith("2026-11-20 10:31:02.123  ")


@pytest.mark.parametrize(
    "data",
    [
        None, b"", b"\xff", b"[" * 100_000, b"{}", b"7", b'"x"', value([event()]),
        value({**event(), "version": 2}), value({**event(), "at_ms": "soon"}),
        value({**event(), "at_ms": True}), value({**event(), "event": 3}),
        value({**event(), "group": None}), value({**event(), "generation": 1.5}),
    ],
    ids=lambda data: str(data)[:20],
)  # fmt: skip
def test_events_of_other_versions_are_skipped(data: bytes | None) -> None:
    assert read_event(data) is None


def test_unknown_fields_are_kept_for_programs() -> None:
    fields = event("member_blessed", halo=[3])
    assert read_event(value(fields)) == fields


# --- the order of several partitions ------------------------------------------------------------


def records(name: TopicPartition, *times: int, base: int = 0) -> list[ConsumerRecord]:
    return [ConsumerRecord(*name, offset, time, b"k", b"v", ()) for offset, time in enumerate(times, base)]


def times(taken: Sequence[ConsumerRecord]) -> list[int]:
    return [record.timestamp for record in taken]


def test_partitions_are_merged_by_time_and_each_stays_in_its_order() -> None:
    """Nothing is shown while something older may come; a clock that was set back changes no order."""
    merge = Merge({P: 4, Q: 3})
    merge.add({P: records(P, 10, 5, 30)}, later=False)
    assert merge.take() == []
    merge.add({Q: records(Q, 20)}, later=False)
    assert times(merge.take()) == [10, 5, 20]
    merge.add({Q: records(Q, 40, 41, base=1)}, later=False)
    merge.close(Q)
    assert times(merge.take()) == [30]
    merge.add({P: records(P, 42, base=3)}, later=False)
    merge.close(P)
    assert times(merge.take()) == [40, 41, 42]


@pytest.mark.parametrize(("later", "shown"), [(False, [1, 2]), (True, [1, 2, 3])])
def test_events_after_the_end_are_only_for_followers(later: bool, shown: list[int]) -> None:
    merge = Merge({P: 2})
    merge.add({P: records(P, 1, 2, 3)}, later=later)
    merge.close(P)
    assert times(merge.take()) == shown


def test_a_partition_that_is_far_before_others_or_at_its_end_is_not_read_on() -> None:
    merge = Merge({P: 10**9, Q: 10**9})
    merge.add({P: records(P, *range(WAITING_RECORDS_MAX + 1))}, later=False)
    assert merge.waiting() == {P}
    merge.close(Q)
    merge.take()
    assert merge.waiting() == {Q}


# --- the command --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(brokers=1, broker_settings=SEVERAL)


@pytest.fixture(scope="module")
def shell(cluster: LocalCluster) -> Shell:
    return Shell(cluster)


async def make_group(cluster: LocalCluster, group: str) -> None:
    """A group that came and went."""
    topic = f"of-{group}"
    await Shell(cluster).topic(topic, replication_factor=1)
    async with Consumer(cluster.bootstrap, group_id=group, **GROUP_SETTINGS) as consumer:
        consumer.subscribe([topic])
        await eventually(lambda: bool(consumer.assignment()), deadline_s=20)


class EventsTopic:
    """Writes events of groups that never were."""

    def __init__(self, writer: EventWriter) -> None:
        self._writer = writer
        self._clock = itertools.count(SystemClock().wall_ms())

    async def put(self, *events_topic: Fields) -> None:
        for fields in events_topic:
            self._writer.put(fields["group"].encode(), value(fields), next(self._clock))
        assert await self._writer.flush(30)


@pytest.fixture(scope="module")
async def first(cluster: LocalCluster) -> str:
    """The group that had the topic made."""
    await make_group(cluster, "first")
    return "first"


@pytest.fixture
async def events_topic(cluster: LocalCluster, first: str) -> AsyncIterator[EventsTopic]:
    async def prepare() -> None:
        return

    async with EventWriter(
        cluster.bootstrap,
        GROUP_EVENTS_TOPIC,
        events_max=1_000,
        prepare=prepare,
        transport=await member_transport(cluster),
        clock=SystemClock(),
    ) as writer:
        yield EventsTopic(writer)


@pytest.mark.slow
async def test_all_events_are_shown_in_order_and_only_one_groups_if_asked(
    shell: Shell, events_topic: EventsTopic, first: str
) -> None:
    """Over several partitions; as JSON a line is the record, with unknown fields."""
    groups = [f"order-{number}" for number in range(8)]
    facts = {"member": "m", "task": "counts-3", "lag": 5, "halo": "für Münster"}
    happened = [
        event("task_progress", groups[step % len(groups)], at_ms=AT - step, **facts) for step in range(200)
    ]
    await events_topic.put(*happened)
    shown = await shell.objects("group", "events")
    assert [fields for fields in shown if fields["group"] in groups] == happened

    async def shows_the_first() -> bool:
        return first in {fields["group"] for fields in await shell.objects("group", "events")}

    await eventually(shows_the_first, what="the events of the first group are written")
    of_one = await shell.objects("group", "events", groups[3])
    assert of_one == [fields for fields in happened if fields["group"] == groups[3]]
    ended = await shell("group", "events", groups[3])
    assert (ended.status, ended.err) == (0, "")
    lines = ended.out.decode().splitlines()
    assert len(lines) == len(of_one)
    assert all(line.endswith("order-3  generation 7  m  counts-3  lag 5") for line in lines)
    nobody = await shell("group", "events", "nobody")
    assert (nobody.status, nobody.out, nobody.err) == (0, b"", "")


@pytest.mark.slow
async def test_events_of_a_later_version_are_left_out_and_counted(
    shell: Shell, events_topic: EventsTopic
) -> None:
    await events_topic.put(
        event("task_ready", "later"), {"version": 2, "group": "later"}, event("lost", "later")
    )
    ended = await shell("group", "events", "later", "-o", "json")
    assert [fields["event"] for fields in ended.objects] == ["task_ready", "lost"]
    assert ended.status == 0
    assert ended.err == "records skipped because they are no events of this version: 1\n"


@pytest.mark.slow
async def test_following_shows_past_events_then_each_at_once_and_ends_quietly(
    shell: Shell, events_topic: EventsTopic
) -> None:
    """Through a pipe too; Ctrl-C is how it is meant to end."""
    happened = [event("task_progress", "followed", lag=lag) for lag in range(4)]
    await events_topic.put(happened[0])
    process = await start("group", "events", "followed", "--follow", "-o", "json", **shell.environment)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(FOLLOWED_S_MAX):
            assert json.loads(await process.stdout.readline()) == happened[0]
            for fields in happened[1:]:
                await events_topic.put(event("lost", "another"), fields)
                assert json.loads(await process.stdout.readline()) == fields
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(FOLLOWED_S_MAX):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert (process.returncode, out, err) == (130, b"", b"")


@pytest.mark.slow
async def test_without_any_group_there_is_nothing_and_a_follower_waits_for_the_first(
    make_cluster: ClusterFactory,
) -> None:
    cluster = await make_cluster(brokers=1)
    shell = Shell(cluster)
    for form in ("text", "json"):
        ended = await shell("group", "events", "-o", form)
        assert (ended.status, ended.out, ended.err) == (0, b"", "")
    process = await start("group", "events", "--follow", **shell.environment)
    assert process.stdout is not None
    try:
        await make_group(cluster, "earliest")
        async with asyncio.timeout(FOLLOWED_S_MAX):
            line = (await process.stdout.readline()).decode()
    finally:
        process.kill()
        await process.wait()
    assert process.stderr is not None
    assert "earliest  generation" in line, await process.stderr.read()
