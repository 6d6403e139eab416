"""Runs `strandline console` for tests, as users do: a process of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from signal import SIGTERM
from typing import Final

from tests.strandline.cli.support.cli_process import start

READY_S_MAX: Final = 30.0
END_S_MAX: Final = 15.0


@asynccontextmanager
async def serving(*arguments: str, bootstrap: str = "") -> AsyncIterator[str]:
    """Its address, such as `http://127.0.0.1:41234`. At the end it has to end well by SIGTERM."""
    process = await start(
        "console", "--listen", "127.0.0.1:0", "-o", "json", "--bootstrap", bootstrap, *arguments,
        STRANDLINE_LOG_LEVEL="error",
    )  # fmt: skip
    try:
        async with asyncio.timeout(READY_S_MAX):
            line = await process.stdout.readline()
        assert line, f"it ended with {await process.wait()}"
        yield json.loads(line)["address"].rstrip("/")
        process.send_signal(SIGTERM)
        async with asyncio.timeout(END_S_MAX):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
