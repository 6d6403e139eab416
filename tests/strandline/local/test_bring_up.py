"""A start that fails harms nothing that serves, and the next one continues (docs/run/brokers.md)."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from strandline.local.cluster import LocalCluster
from strandline.local.layout import Layout
from strandline.local.ports import LOOPBACK
from strandline.local.process import Process, ProcessFailed
from tests.waiting import eventually

SHORT_S = 0.5


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Path]:
    """The folder of a detached cluster, which is stopped after the test."""
    home = tmp_path / "home"
    yield home
    if Layout(home).holds_cluster:
        await LocalCluster.open(home).stop(clean=False)


def suspended_spawn(suspended: list[Process]) -> Any:
    """Starts broker 2 and suspends it at once: it is slow for as long as a test likes."""

    def spawn(name: str, *arguments: Any, **options: Any) -> Process:
        process = Process.spawn(name, *arguments, **options)
        if name == "broker-2":
            process.send(signal.SIGSTOP)
            suspended.append(process)
        return process

    return spawn


def brokers(home: Path) -> list[int | None]:
    """The pids of the brokers."""
    return [member.pid for member in LocalCluster.open(home).members() if member.kind == "broker"]


async def test_what_serves_stays_up_when_another_broker_dies(home: Path) -> None:
    """It was killed after it had begun to serve; the error was the end of a log, thousands of characters."""
    with ExitStack() as stack:

        def spawn(name: str, *arguments: Any, **options: Any) -> Process:
            if name == "broker-1":
                stack.enter_context(socket.create_server((LOOPBACK, port)))
            return Process.spawn(name, *arguments, **options)

        cluster = LocalCluster(2, controllers=0, directory=home, detached=True, spawn=spawn)
        port = cluster.members()[-1].port
        with pytest.raises(ProcessFailed) as failed:
            await cluster.start()
    said = failed.value.message
    log = home / "logs" / "broker-2.log"
    assert said.startswith(f"broker-2 died before it served (exit status 2); the last line of {log}: broker:")
    assert f"cannot listen on 127.0.0.1:{port}" in said and "\n" not in said
    first, second = brokers(home)
    assert first is not None and second is None
    await LocalCluster.open(home).start()
    after = brokers(home)
    assert after[0] == first and after[1] is not None


async def test_a_slow_broker_goes_on_and_the_next_start_waits_for_it(home: Path) -> None:
    """To stop it would throw away the work of its start, again and again if it has a long log."""
    suspended: list[Process] = []
    spawn = suspended_spawn(suspended)
    cluster = LocalCluster(2, controllers=0, directory=home, detached=True, spawn=spawn)
    with pytest.raises(ProcessFailed, match=r"does not serve after 0\.5 s"):
        await cluster.start(timeout_s=SHORT_S)
    before = brokers(home)
    assert None not in before
    (slow,) = suspended
    slow.send(signal.SIGCONT)
    await LocalCluster.open(home).start()
    assert brokers(home) == before


async def test_a_start_that_is_interrupted_stops_what_does_not_serve_yet(home: Path) -> None:
    """So after Ctrl-C in `up` nothing starts on its own account."""
    suspended: list[Process] = []
    spawn = suspended_spawn(suspended)
    cluster = LocalCluster(2, controllers=0, directory=home, detached=True, spawn=spawn)
    async with asyncio.TaskGroup() as tasks:
        starting = tasks.create_task(cluster.start())
        await eventually(lambda: suspended)
        starting.cancel()
    assert starting.cancelled()
    assert not any(member.alive for member in LocalCluster.open(home).members())


async def test_a_broker_that_is_stopping_is_started_again(home: Path) -> None:
    """`kill PID` and then `strandline up` restarts a broker; `up` counted it as one that runs."""
    cluster = LocalCluster(1, controllers=0, directory=home, detached=True)
    async with cluster:
        (before,) = brokers(home)
    assert before is not None
    os.kill(before, signal.SIGTERM)
    await LocalCluster.open(home).start()
    (after,) = brokers(home)
    assert after not in (None, before)


async def test_brokers_that_serve_are_added_though_another_is_not(home: Path) -> None:
    """They may have replicas of new topics by then."""
    async with LocalCluster(0, controllers=0, directory=home, detached=True):
        pass
    cluster = LocalCluster.open(home)
    (home / "brokers").mkdir()
    (home / "brokers" / "1").write_text("not a folder")
    with pytest.raises(ProcessFailed, match="broker-1 died"):
        await cluster.grow(2)
    assert LocalCluster.open(home).broker_ids == [2]
    assert None not in brokers(home)


async def test_an_error_says_how_many_others_do_not_serve(home: Path) -> None:
    async with LocalCluster(0, controllers=0, directory=home, detached=True):
        pass
    (home / "brokers").write_text("not a folder")
    with pytest.raises(ProcessFailed, match=r"broker-[12] died .*; and 1 more process does not serve$"):
        await LocalCluster.open(home).grow(2)
