"""Forked programs: their streams, environment, signals and exit status are their own."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.forking.client import spawn, start_forked


@pytest.mark.parametrize(("given", "status"), [(b'{"a": [1]}', 0), (b"{", 1)])
async def test_a_program_has_its_arguments_streams_and_status(given: bytes, status: int) -> None:
    process = await start_forked("json.tool", "--compact")
    out, err = await process.communicate(given)
    assert (process.returncode, out) == (status, b'{"a":[1]}\n' if status == 0 else b"")
    assert bool(err) == bool(status)


async def test_a_program_has_its_environment() -> None:
    process = await start_forked(
        "timeit", "-n1", "-r1", "import os; print(os.environ['OWN'])", environment={"OWN": "é"}
    )
    out, _ = await process.communicate()
    assert out.startswith("é\n".encode())
    assert "OWN" not in os.environ


async def test_a_signal_ends_a_program() -> None:
    process = await start_forked("json.tool")
    assert process.returncode is None
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == process.returncode == -signal.SIGTERM
    process.kill()


async def test_a_process_of_a_cluster_appends_to_its_log_and_has_its_status(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "one.log"
    for _ in range(2):
        command = [sys.executable, "-m", "json.tool"]
        process = spawn("one", command, log_path=log, environment=os.environ)
        await process.wait(20)
        assert process.exit_status == 1
    assert log.read_text().count("Expecting value") == 2
