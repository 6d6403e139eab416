"""Starts the processes of librdkafka, and makes topics for them."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from strandline import Admin
from strandline_lab.bench.runs import output_of

PARTITIONS: Final = 3
LINE_S_MAX: Final = 300.0
"""How long a process may take to print its next line."""
CLIENT: Final = "strandline_lab.bench.kafka.client"
CONTROL_CLIENT: Final = "strandline_lab.bench.kafka.control_client"


async def start_client(bootstrap: str, *arguments: str, module: str = CLIENT) -> asyncio.subprocess.Process:
    """Starts one; its standard input and output are pipes."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, bootstrap, *arguments,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def next_line(process: asyncio.subprocess.Process) -> list[str]:
    """The words of the next line. Raises RuntimeError with the error output if there is none."""
    assert process.stdout is not None and process.stderr is not None
    async with asyncio.timeout(LINE_S_MAX):
        line = await process.stdout.readline()
    if not line:
        raise RuntimeError((await process.stderr.read()).decode().strip())
    return line.decode().split()


async def run_client(bootstrap: str, *arguments: str, module: str = CLIENT) -> Mapping[str, Any]:
    """The figures that one prints. Raises RuntimeError with its error output if it fails."""
    process = await start_client(bootstrap, *arguments, module=module)
    out = await output_of(process, " ".join(arguments))
    figures: Mapping[str, Any] = json.loads(out.splitlines()[-1])
    return figures


@asynccontextmanager
async def new_topic(admin: Admin, kind: str, partitions: int = PARTITIONS) -> AsyncIterator[str]:
    """A topic with three replicas that is deleted afterwards, as `perf` does."""
    name = f"kafka-{kind}-{time.monotonic_ns()}"
    await admin.create_topic(name, partitions=partitions, replication_factor=3)
    try:
        yield name
    finally:
        await admin.delete_topics([name])
