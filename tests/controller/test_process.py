"""The controller as a process: health, a clean stop, wrong settings, and the answers on the wire."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from strandline.adapters.rpc.wire_errors import error_of_call
from strandline.adapters.zookeeper import znodes
from strandline.config.limits import TOPICS_PER_REQUEST_MAX
from strandline.errors import ErrorCode, InvalidRequest
from strandline.local.zookeeper_process import ZooKeeperProcess
from strandline.rpc import admin_pb2
from tests.conftest import SessionFactory
from tests.controller.support.running import ControllerProcess, process
from tests.controller.support.znodes_seen import register
from tests.waiting import eventually


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("STRANDLINE_PORT", "99999", "setting port"),
        ("STRANDLINE_ZOOKEEPER", "a:b:c", "setting zookeeper"),
        ("STRANDLINE_HOST", "203.0.113.9", "cannot listen"),
        ("STRANDLINE_TEST_CRASH_POINTS", "x:often", "is not a count"),
    ],
)
def test_a_wrong_setting_ends_the_process_with_status_2_and_one_line_that_names_it(
    variable: str, value: str, says: str
) -> None:
    """Settings are checked at start with messages that say what to change."""
    ended = subprocess.run(
        [sys.executable, "-m", "strandline.controller"],
        env={**os.environ, "STRANDLINE_ALLOW_INSECURE": "true", variable: value},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 2
    assert says in ended.stderr
    assert variable in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("kind", ["broker", "controller"])
def test_a_misspelt_setting_is_a_warning_at_the_start(kind: str, tmp_path: Path) -> None:
    """It would leave the default in force, here that everyone may do everything."""
    file = tmp_path / "settings.toml"
    file.write_text("broker_id = 1\ndata_dir = 'data'\nauthorzer = 'acl'\nlinger_ms = 5\n")
    ended = subprocess.run(
        [sys.executable, "-m", f"strandline.{kind}"],
        env={
            **os.environ,
            "STRANDLINE_CONFIG": str(file),
            "STRANDLINE_AUTHORIZR": "acl",
            "STRANDLINE_HOST": "203.0.113.9",  # ends the start
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 2
    logged = [json.loads(line) for line in ended.stderr.splitlines() if line.startswith("{")]
    warned = [(line["setting"], line["nearest"]) for line in logged if "no setting has" in line["event"]]
    assert warned == [("STRANDLINE_AUTHORIZR", "STRANDLINE_AUTHORIZER"), ("authorzer", "authorizer")]


async def test_on_sigterm_it_stops_cleanly_and_gives_its_role_up_at_once(
    zookeeper: str, open_session: SessionFactory, tmp_path: Path
) -> None:
    """SIGTERM is a clean shutdown."""
    session = await open_session()
    async with process(1, zookeeper, tmp_path) as controller:
        running = controller.service.process
        assert running is not None
        assert await session.exists(znodes.CONTROLLER) is not None
        running.send(signal.SIGTERM)
        await running.wait(10)
        assert running.exit_status == 0
        assert await session.exists(znodes.CONTROLLER) is None


async def test_it_waits_for_zookeeper_and_continues_after_an_outage(
    own_zookeeper: ZooKeeperProcess, tmp_path: Path
) -> None:
    """It answers health checks from the start, and SERVING once it knows the active controller."""
    address = own_zookeeper.address
    await own_zookeeper.kill()
    controller = ControllerProcess(1, address, tmp_path)
    try:
        await eventually(lambda: "waiting for ZooKeeper" in controller.service.log_path.read_text())
        assert not await controller.service.serves()
        own_zookeeper.start()
        await controller.service.wait_serving()
        assert await controller.is_active()
        await own_zookeeper.kill()
        own_zookeeper.start()
        await eventually(controller.is_active, deadline_s=20)
    finally:
        await controller.service.stop(clean=False)


async def test_errors_cross_the_wire_with_code_limit_and_place(
    zookeeper: str, open_session: SessionFactory, tmp_path: Path
) -> None:
    """An error is a code, a message for people, and the facts to act on."""
    session = await open_session()
    await register(session, [1])
    async with process(1, zookeeper, tmp_path) as controller:
        good = admin_pb2.NewTopic(name="good", partitions=1, replication_factor=1)
        wide = admin_pb2.NewTopic(name="wide", partitions=1, replication_factor=2)
        results = {result.topic: result for result in await controller.create(good, wide)}
        assert not results["good"].HasField("error")
        assert len(results["good"].topic_id) == 32
        assert results["wide"].error.code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert results["wide"].error.limit == 1
        (gone,) = await controller.delete("never")
        assert gone.error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        described = await controller.describe()
        assert [b.endpoint.id for b in described.brokers] == [1]
        assert described.controller.port == controller.service.member.port


async def test_too_many_topics_end_the_call_with_a_typed_error(zookeeper: str, tmp_path: Path) -> None:
    async with process(1, zookeeper, tmp_path) as controller:
        many = [admin_pb2.NewTopic(name=f"t{i}") for i in range(TOPICS_PER_REQUEST_MAX + 1)]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await controller.create(*many)
        error = error_of_call(caught.value)
        assert isinstance(error, InvalidRequest)
        assert error.limit == TOPICS_PER_REQUEST_MAX
