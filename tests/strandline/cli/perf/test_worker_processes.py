"""Workers of a measurement end with it, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from subprocess import PIPE
from typing import Final

PARENT: Final = """
import asyncio
from strandline_lab.perf.worker_processes import WorkerProcesses

async def main() -> None:
    async with WorkerProcesses("http.server", [["0", "--bind", "127.0.0.1"]]):
        print("started", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
"""Its worker reads no commands, and so does not notice that they end."""


def test_a_worker_dies_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=PIPE,
        stderr=PIPE,
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"started\n"
        parent.kill()
        _ = parent.communicate(timeout=60)  # both have the other end of its standard error
