"""`strandline state-changes` against a real cluster, as its users run it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from strandline.local.cluster import LocalCluster
from strandline.vocabulary.state_changes import dump_event
from tests.integration.support.made_up_events import MadeUpEvents, writing_events
from tests.strandline.cli.support.cli_process import start
from tests.strandline.cli.support.shell import Shell
from tests.waiting import eventually

pytestmark = pytest.mark.slow

FOLLOWED_S_MAX = 30


@pytest.fixture(scope="module")
def shell(cluster: LocalCluster) -> Shell:
    return Shell(cluster)


@pytest.fixture
async def made_up(cluster: LocalCluster) -> AsyncIterator[MadeUpEvents]:
    async with writing_events(cluster) as events:
        yield events


async def test_with_json_a_line_is_the_record(shell: Shell, made_up: MadeUpEvents) -> None:
    """The record's own fields, in its order: what a consumer of the topic sees."""
    events = made_up.put(3, reason="für Münster")
    await made_up.written()
    ended = await shell("state-changes", "--topic", made_up.topic, "-o", "json")
    assert ended.status == 0, ended.err
    assert ended.objects == [dump_event(event) for event in events]
    assert ended.out.splitlines()[0].startswith(b'{"version": 1, "id": "made_up-')


async def test_for_people_a_line_is_a_step_and_filters_hold(shell: Shell, made_up: MadeUpEvents) -> None:
    """The list in Kafka's design V2."""
    early = int(datetime(2026, 11, 20, 10, 31, tzinfo=UTC).timestamp() * 1000)
    made_up.put(at_ms=early)
    made_up.put(at_ms=early + 60_000)
    await made_up.written()
    arguments = [
        "state-changes",
        "--topic",
        made_up.topic,
        "--partition",
        "0",
        "--broker",
        "1",
        "--broker",
        "7",
    ]
    ended = await shell(*arguments)
    assert ended.status == 0, ended.err
    lines = ended.out.decode().splitlines()
    step = rf"leader, broker 2, requested start-replica of {made_up.topic}-0 to broker 1, at epoch 10"
    assert len(lines) == 2
    assert all(re.fullmatch(rf"2026-11-2\d \d\d:\d\d:\d\d\.000  {step}", line) for line in lines), lines
    later = await shell(*arguments, "--since", "2026-11-20T10:31:30+00:00")
    assert later.out.decode().splitlines() == lines[1:]
    nobody = await shell("state-changes", "--topic", made_up.topic, "--broker", "7")
    assert (nobody.status, nobody.out) == (0, b"")
    assert f"topic '{made_up.topic}' does not exist; broker 7 is not known, known are 1, 2, 3" in nobody.err


async def test_a_missing_partition_is_reported(shell: Shell) -> None:
    topic = await shell.topic("short", partitions=2)
    ended = await shell("state-changes", "--topic", topic, "--partition", "7")
    assert (ended.status, ended.out) == (0, b"")
    assert "short has partitions 0 to 1, there is no 7" in ended.err


async def test_following_shows_each_line_at_once_and_ends_quietly(
    shell: Shell, made_up: MadeUpEvents
) -> None:
    """Through a pipe too; Ctrl-C is how it is meant to end."""
    process = await start(
        "state-changes", "--topic", made_up.topic, "--follow", "-o", "json", **shell.environment
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(FOLLOWED_S_MAX):
            for _ in range(3):
                (event,) = made_up.put()
                line: dict[str, Any] = json.loads(await process.stdout.readline())
                assert line == dump_event(event)
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(FOLLOWED_S_MAX):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert (process.returncode, out, err) == (130, b"", b"")


async def test_a_reader_that_goes_away_ends_it(shell: Shell, made_up: MadeUpEvents) -> None:
    """`| head`: status 1 and not a word, as the other commands."""
    process = await start("state-changes", "--topic", made_up.topic, "--follow", **shell.environment)
    assert process.stdout is not None
    made_up.put()
    async with asyncio.timeout(FOLLOWED_S_MAX):
        await process.stdout.readline()
        process.stdout._transport.close()  # type: ignore[attr-defined]  # what closes the pipe's other end

        async def ended() -> bool:
            made_up.put()
            return process.returncode is not None

        await eventually(ended, deadline_s=FOLLOWED_S_MAX)
    assert process.stderr is not None
    assert (process.returncode, await process.stderr.read()) == (1, b"")


async def test_the_backlog_has_a_line_for_each_broker(shell: Shell) -> None:
    async def rested() -> list[Any] | None:
        rows = await shell.objects("state-changes", "--backlog")
        return rows if all(row["queued"] == 0 for row in rows) else None

    rows = await eventually(rested, deadline_s=30)
    assert rows == [
        {"broker": broker, "alive": True, "queued": 0, "oldest_at": None, "oldest_age_ms": None}
        for broker in (1, 2, 3)
    ]
    shown = await shell("state-changes", "--backlog", "--broker", "2")
    assert shown.out.decode().splitlines() == ["broker  alive  queued  oldest", "2       yes    0       -"]


async def test_the_backlog_of_a_dead_broker_is_shown_with_its_age(
    cluster: LocalCluster, shell: Shell
) -> None:
    """Kafka's design V2: the backup of state change requests, on slow followers; a dead one is the
    slowest."""
    await shell.topic("deleted-while-one-is-dead")
    await cluster.kill_broker(3)
    try:
        await shell.objects("topic", "delete", "deleted-while-one-is-dead")

        async def queued() -> dict[str, Any] | None:
            (row,) = await shell.objects("state-changes", "--backlog", "--broker", "3")
            return row if row["queued"] and not row["alive"] else None

        row = await eventually(queued, deadline_s=30)
        assert row is not None and row["oldest_age_ms"] >= 0 and row["oldest_at"] > 0
        shown = await shell("state-changes", "--backlog", "--broker", "3")
        assert re.fullmatch(r"3 +no +\d+ +[\d.]+ (s|min \d+ s)", shown.out.decode().splitlines()[1])
    finally:
        await cluster.start_broker(3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--partition", "1"], "--topic"),
        (["--broker", "-1"], "-1"),
        (["--broker", "x"], "x"),
        (["--topic", "t", "--partition", "x"], "x"),
        (["--since", "yesterday"], "yesterday"),
        (["--since", "1969-12-31T00:00+00:00"], "1970"),
        (["--backlog", "--follow"], "--backlog"),
        (["--backlog", "--topic", "t"], "--backlog"),
    ],
)
async def test_wrong_usage_ends_with_status_2(shell: Shell, arguments: list[str], said: str) -> None:
    ended = await shell("state-changes", *arguments)
    assert (ended.status, ended.out) == (2, b"")
    assert said in ended.err


async def test_without_a_controller_it_logs_the_search_and_fails_in_one_sentence(
    cluster: LocalCluster, shell: Shell
) -> None:
    """Exit status 1, and the missing member."""
    await cluster.kill_controller(1)
    try:
        ended = await shell("state-changes")
    finally:
        await cluster.start_controller(1)
    assert ended.status == 1
    remark, failure = ended.err.splitlines()
    assert remark.startswith("waiting up to 10 s for an active controller: ")
    assert failure.startswith("error: no active controller") and "is a controller running?" in failure
