"""`strandline console --run`: it starts where there is no cluster."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import urllib.request
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest

from tests.console.runs.folders import write_round

pytestmark = pytest.mark.slow
START_S_MAX = 40.0


async def console(*arguments: object, where: Path) -> Process:
    command = [sys.executable, "-m", "strandline", "console", "--listen", "127.0.0.1:0", "-o", "json"]
    return await asyncio.create_subprocess_exec(
        *command, *map(str, arguments), cwd=where, stdout=PIPE, stderr=PIPE
    )


async def test_the_command_shows_runs_without_a_cluster(tmp_path: Path) -> None:
    write_round(tmp_path / "rounds" / "seed-7")
    process = await console("--run", "rounds", where=tmp_path)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_S_MAX):
            address = json.loads(await process.stdout.readline())["address"]

            def page() -> str:
                with urllib.request.urlopen(f"{address}runs", timeout=START_S_MAX) as opened:
                    return str(opened.read().decode())

            assert "Chaos round of seed 7" in await asyncio.to_thread(page)
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    process = await console("--run", tmp_path, where=tmp_path)
    async with asyncio.timeout(START_S_MAX):
        _, said = await process.communicate()
    assert process.returncode != 0
    assert "no run has ended there" in said.decode() and "Traceback" not in said.decode()
