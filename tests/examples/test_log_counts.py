"""The example as its users run it: `python -m examples.log_counts` beside `strandline up`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from strandline import LocalCluster
from strandline.local.process import Process
from tests.conftest import ClusterFactory

ROOT = Path(__file__).parents[2]
END_S_MAX = 100.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]


@pytest.fixture
async def own_cluster(make_cluster: ClusterFactory) -> LocalCluster:
    return await make_cluster(brokers=3)


@pytest.fixture
async def secure_cluster(make_cluster: ClusterFactory) -> LocalCluster:
    return await make_cluster(brokers=3, secure=True)


async def example(cluster: LocalCluster, *arguments: str) -> tuple[int, str]:
    """Exit status and all that one of its commands prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "examples.log_counts", *arguments, "--bootstrap", cluster.bootstrap),
        *(("--command-config", str(cluster.directory / "client.toml")) if cluster.secure else ()),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(END_S_MAX):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            _ = await process.wait()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def test_a_member_counts_the_same_as_a_loop(own_cluster: LocalCluster, tmp_path: Path) -> None:
    """Before a member runs the check fails; with one it passes, and the member leaves in order."""
    data = tmp_path / "data"
    data.mkdir()
    _ = (data / "gate.log").write_text(
        "Jan 02 03:04:05 gate sshd[17]: Invalid user ada from 10.1.2.3\n" * 300
    )
    assert await example(own_cluster, "feed", "--data", str(data)) == (0, "300 lines are written.\n")
    status, output = await example(own_cluster, "check", "--timeout", "0")
    assert status == 1 and "does a member run?" in output
    member = Process.spawn(
        "member",
        [
            *(sys.executable, "-m", "examples.log_counts", "run", "--bootstrap", own_cluster.bootstrap),
            *("--state-dir", str(tmp_path / "state")),
        ],
        log_path=tmp_path / "member.log",
        environment={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        status, output = await example(own_cluster, "check")
        assert status == 0, output + member.log_tail()
        assert output.endswith("Every line was counted exactly once.\n")
        assert output.count("300") >= 8  # ada, sshd and both sums, in both columns
        member.send(signal.SIGTERM)
        await member.wait(END_S_MAX)
        assert member.exit_status == 0, member.log_tail()
    finally:
        await member.stop(clean=False, timeout_s=0)


async def test_members_come_and_go_and_every_line_is_counted_once(secure_cluster: LocalCluster) -> None:
    """It starts three members, kills one and lets one go; of its processes none is left. All of them connect
    with the settings of its file."""
    status, output = await example(secure_cluster, "scale")
    assert status == 0, output
    assert "kill -9 of member-2" in output
    assert output.endswith("Every line was counted exactly once.\n")
