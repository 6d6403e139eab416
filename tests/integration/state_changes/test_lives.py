"""A broker's lives: sessions that expire, unnoticed restarts, and starts that must be refused (CORRECTNESS
E4, E10, I6)."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from strandline.local.layout import MemberFile
from strandline.local.process import Process
from strandline.local.service import Service
from tests.integration.support.harness import SESSION_TIMEOUT_MS, Harness
from tests.integration.support.workload import workload
from tests.waiting import eventually

pytestmark = pytest.mark.slow

SETTINGS_REFUSED = 2
"""The exit status of a process whose settings are wrong."""


@pytest.mark.timeout(120)
async def test_a_broker_whose_session_expired_leads_nothing_and_comes_back_in_another_life(
    harness: Harness,
) -> None:
    """It slept longer than its session. When it wakes, it resigns all its leaderships, and joins again
    under a broker epoch of its own; the ISR names it with that epoch (CORRECTNESS E1, E4, E10, I6)."""
    topic = await harness.create_topic([(1, 2, 3)])
    before, life = await topic.state(), await harness.broker_epoch(1)
    harness.cluster.pause_broker(1)
    led = await topic.led_above(before.leader_epoch)
    assert led.leader != 1

    async def expired() -> bool:
        return await harness.broker_epoch(1) != life

    await eventually(expired, what="its session has ended, which its leadership did not wait for")
    harness.cluster.resume_broker(1)
    state = await topic.isr_is(1, 2, 3)
    assert (state.leader, state.leader_epoch) == (led.leader, led.leader_epoch)
    (member,) = (member for member in state.isr if member.broker == 1)
    assert member.broker_epoch > life
    assert "session over" in harness.log_text(1)
    await topic.agreed()


@pytest.mark.timeout(120)
async def test_a_restart_faster_than_the_session_is_another_life(harness: Harness) -> None:
    """A leader is killed and started again while its old registration still exists: it removes that, gets
    another broker epoch, and a new leader epoch begins, under any leader (CORRECTNESS E4, E10, T5, I2)."""
    topic = await harness.create_topic([(1, 2, 3)])
    async with workload(topic) as load:
        await load.progress()
        before, life = await topic.state(), await harness.broker_epoch(1)
        await harness.cluster.kill_broker(1)
        await harness.cluster.start_broker(1, zookeeper_session_timeout_ms=60_000)
        second = await harness.broker_epoch(1)
        assert second > life
        assert (await topic.led_above(before.leader_epoch)).leader_epoch > before.leader_epoch
        await topic.isr_is(1, 2, 3)
        # This life's session would outlast the test by far: only its own successor can end it.
        await harness.cluster.kill_broker(1)
        await harness.cluster.start_broker(1, zookeeper_session_timeout_ms=SESSION_TIMEOUT_MS)
        assert await harness.broker_epoch(1) > second
        assert "removing the registration of an earlier life" in harness.log_text(1)
        await topic.isr_is(1, 2, 3)
        await load.progress()
        await load.judge()


class Intruder:
    """A broker process that does not belong to the cluster."""

    def __init__(self, harness: Harness, directory: Path) -> None:
        self._zookeeper = harness.cluster.zookeeper
        self._directory = directory
        self.process: Process | None = None

    async def refused(self, *, broker_id: int, port: int = 0, **settings: Any) -> str:
        """Start it, wait for its end, and return what it printed."""
        log_path = self._directory / "intruder.log"
        fixed = {
            "zookeeper": self._zookeeper,
            "data_dir": self._directory / "data",
            "zookeeper_session_timeout_ms": SESSION_TIMEOUT_MS,
            **settings,
        }
        member = MemberFile(id=broker_id, port=port)
        service = Service("broker", member, fixed, log_path=log_path, detached=False)
        service.start()
        process = service.process
        assert process is not None
        self.process = process
        await eventually(lambda: not process.alive, deadline_s=30, what=f"{log_path} says why it ended")
        assert process.exit_status == SETTINGS_REFUSED, log_path.read_text()
        return log_path.read_text()


@pytest.fixture
async def intruder(harness: Harness, tmp_path: Path) -> AsyncIterator[Intruder]:
    one = Intruder(harness, tmp_path)
    yield one
    if one.process is not None:
        await one.process.stop(clean=False, timeout_s=0)


async def test_a_second_broker_with_the_same_id_refuses_to_start(
    harness: Harness, intruder: Intruder
) -> None:
    """The message names the owner of the id and what to change; no other broker is affected (E10)."""
    life = await harness.broker_epoch(2)
    said = await intruder.refused(broker_id=2)
    assert f"broker 2 is alive at {harness.cluster.address(2)}" in said
    assert "STRANDLINE_BROKER_ID" in said
    assert await harness.broker_epoch(2) == life


async def test_a_data_folder_in_use_is_refused(harness: Harness, intruder: Intruder) -> None:
    said = await intruder.refused(broker_id=1, data_dir=harness.cluster.data_dir(1))
    assert "another process uses this folder" in said
    assert harness.running(1)


async def test_a_port_that_is_taken_is_refused(intruder: Intruder) -> None:
    """Two processes on one port would share its clients between them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        said = await intruder.refused(broker_id=9, port=port)
    assert f"port = {port}" in said
    assert "STRANDLINE_PORT" in said
