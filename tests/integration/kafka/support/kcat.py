"""kcat, a program of librdkafka. Where it is not installed, its tests say that they were not run."""

from __future__ import annotations

import asyncio
import shutil
from typing import Final

import pytest

KCAT: Final = shutil.which("kcat")
needs_kcat = pytest.mark.skipif(KCAT is None, reason="no kcat on PATH: install kcat")


async def kcat(*arguments: str, given: str = "", within_s: float = 60.0) -> str:
    """What it writes to standard output. Fails the test unless it exits with 0 in time."""
    assert KCAT is not None
    process = await asyncio.create_subprocess_exec(
        KCAT, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(within_s):
            written, _ = await process.communicate(given.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, arguments
    return written.decode()
