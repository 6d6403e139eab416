"""Measures the console beside three brokers with 3,000 partitions and a million state changes."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http.client import HTTPConnection
from itertools import islice
from signal import SIGTERM
from typing import Any, Final
from urllib.parse import urlsplit

from strandline import Admin, LocalCluster, NewTopic
from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.rpc.transport import GrpcTransport
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.system_host import new_id
from strandline.adapters.zookeeper.connect import connect
from strandline.client.events.writer import EventWriter
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.ids import STATE_CHANGES_TOPIC
from strandline_lab.bench.console.synthetic import STEP_MS, state_changes
from strandline_lab.bench.report import RUNS, cpu_s, heading, medians, resident_mib

TOPICS: Final = 1_000
PARTITIONS: Final = 3
EVENTS: Final = 1_000_000
PASSED: Final = 5_000_000
"""Events that pass through the window whose memory is measured."""
AT_ONCE: Final = 50_000
TOPICS_AT_ONCE: Final = 100
SESSION_MS: Final = 30_000
"""Of all members: filling the topic keeps them busy."""
VIEWS: Final = 20
CHANGES: Final = 20
PAIRS: Final = 3
BROWSERS: Final = 10
WATCHED_S: Final = 20.0
ANSWER_S_MAX: Final = 60.0
PAGE: Final = "/timeline"
VIEW: Final = "/api/timeline?rows=partition&width=1500&count=100"

FIGURES: Final = {
    "serves_s": "start of the process → its address, s",
    "first_view_ms": "the page and its rows, asked for at once, ms",
    "view_ms": f"the same later, p50 of {VIEWS}, ms",
    "change_ms": f"a topic is created → a row of it, p50 of {CHANGES}, ms",
    "change_max_ms": "the same, longest, ms",
    "process_mib": "memory of the console, MiB",
    "alone_percent": f"CPU of all brokers without a browser, median of {PAIRS}, % of a core",
    "watched_percent": f"the same with {BROWSERS} browsers that follow, in turn, % of a core",
}
WINDOW_FIGURES: Final = {
    "process_mib": f"memory after {PASSED:,} events, MiB",
    "kept": "events kept",
    "event_us": "an event, µs of the processor",
    "longest_turn_ms": "the longest turn of the loop, ms of the processor",
    "view_ms": "a view of 100 rows of all that is kept, ms of the processor",
}


async def measure(runs: int = RUNS) -> None:
    """Prints two tables."""
    heading(f"The console beside {TOPICS * PARTITIONS:,} partitions and {EVENTS:,} state changes", "console")
    await medians(runs, one_run, FIGURES)
    heading("Its timeline alone", "console")
    await medians(1, _window, WINDOW_FIGURES)


async def _window() -> Mapping[str, float]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "strandline_lab.bench.console.window_memory", str(PASSED), stdout=PIPE
    )
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"bench.console.window_memory ended with {process.returncode}")
    figures: Mapping[str, float] = json.loads(out)
    return figures


async def one_run() -> Mapping[str, float]:
    """The figures of one cluster and one console."""
    settings = {"zookeeper_session_timeout_ms": SESSION_MS}
    async with (
        LocalCluster(brokers=3, broker_settings=settings, controller_settings=settings) as cluster,
        Admin(cluster.bootstrap, request_timeout_ms=120_000) as admin,
    ):
        for first in range(0, TOPICS, TOPICS_AT_ONCE):
            names = [f"topic-{number}" for number in range(first, first + TOPICS_AT_ONCE)]
            await admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names])
        await _fill(cluster)
        return await beside(cluster.bootstrap, admin, [cluster.pid(each) for each in cluster.broker_ids])


async def beside(bootstrap: str, admin: Admin, brokers: list[int]) -> Mapping[str, float]:
    """The figures of one console beside a cluster; `brokers` are the ids of its processes."""
    clock = SystemClock()
    began = clock.monotonic()
    async with _console(bootstrap) as (address, pid):
        serves_s = clock.monotonic() - began
        first_ms = await _viewed_ms(address)
        views = [await _viewed_ms(address) for _ in range(VIEWS)]
        changes = [await _changed_ms(admin, address, number) for number in range(CHANGES)]
        alone, watched = [], []
        for _ in range(PAIRS):
            alone.append(await _brokers_percent(brokers))
            watched.append(await _watched_percent(address, brokers))
        return {
            "serves_s": serves_s,
            "first_view_ms": first_ms,
            "view_ms": statistics.median(views),
            "change_ms": statistics.median(changes),
            "change_max_ms": max(changes),
            "alone_percent": statistics.median(alone),
            "watched_percent": statistics.median(watched),
            "process_mib": resident_mib(pid),
        }


async def _fill(cluster: LocalCluster) -> None:
    """Writes the state changes into the topic, as a member of the cluster may; the last one is of now."""
    clock, key = SystemClock(), MemberKey(new_id)
    session = await connect(ZooKeeperSettings(zookeeper=cluster.zookeeper))
    try:
        await key.read(session)
    finally:
        await session.close()

    async def there() -> None:
        """The first state change of a broker has made the topic."""

    source = state_changes(TOPICS, PARTITIONS, clock.wall_ms() - EVENTS * STEP_MS)
    async with EventWriter(
        cluster.bootstrap,
        STATE_CHANGES_TOPIC,
        events_max=AT_ONCE,
        prepare=there,
        transport=GrpcTransport(key.shown),
        clock=clock,
    ) as writer:
        for _ in range(EVENTS // AT_ONCE):
            for each in islice(source, AT_ONCE):
                writer.put(*each)
            await writer.flush(ANSWER_S_MAX)


@asynccontextmanager
async def _console(bootstrap: str) -> AsyncIterator[tuple[str, int]]:
    """A console of its own process: its address, and its process id."""
    command = ["console", "-o", "json", "--listen", "127.0.0.1:0", "--bootstrap", bootstrap]
    quiet = {**os.environ, "STRANDLINE_LOG_LEVEL": "error"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "strandline", *command, stdout=PIPE, env=quiet
    )
    assert process.stdout is not None
    try:
        yield json.loads(await process.stdout.readline())["address"], process.pid
    finally:
        process.send_signal(SIGTERM)
        await process.wait()


async def _get(address: str, path: str) -> bytes:
    """The body of an answer. Raises RuntimeError for another status than 200."""

    def ask() -> bytes:
        connection = HTTPConnection(urlsplit(address).netloc, timeout=ANSWER_S_MAX)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {body[:200]!r}")
        return body

    return await asyncio.to_thread(ask)


async def _rows(address: str, path: str) -> list[Any]:
    rows: list[Any] = json.loads(await _get(address, path))["rows"]
    return rows


async def _viewed_ms(address: str) -> float:
    """The time until a browser has the page, and rows with lanes."""
    clock = SystemClock()
    began = clock.monotonic()
    await _get(address, PAGE)
    while True:
        if any(row["lanes"] for row in await _rows(address, VIEW)):
            return (clock.monotonic() - began) * 1000


async def _changed_ms(admin: Admin, address: str, number: int) -> float:
    """The time from the creation of a topic until a view has its leader."""
    clock = SystemClock()
    await admin.create_topic(f"new-{number}", partitions=1, replication_factor=1)
    began = clock.monotonic()
    while True:
        if await _rows(address, f"{VIEW}&topic=new-{number}"):
            return (clock.monotonic() - began) * 1000
        await asyncio.sleep(0.005)


async def _brokers_percent(pids: list[int]) -> float:
    before = sum(map(cpu_s, pids))
    await asyncio.sleep(WATCHED_S)
    return (sum(map(cpu_s, pids)) - before) * 100 / WATCHED_S


async def _watched_percent(address: str, pids: list[int]) -> float:
    """The CPU of the brokers while ten browsers ask for a view each second, as a page that follows does."""

    async def browser() -> None:
        while True:
            await _get(address, VIEW)
            await asyncio.sleep(1)

    async with asyncio.TaskGroup() as tasks:
        browsers = [tasks.create_task(browser()) for _ in range(BROWSERS)]
        percent = await _brokers_percent(pids)
        for each in browsers:
            each.cancel()
    return percent
