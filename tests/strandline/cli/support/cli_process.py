"""The command line as its users have it: a process with arguments, standard streams and an exit status."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass
from typing import Any

from tests.forking.client import Forked, start_forked

COMMAND_S_MAX = 45.0
LAB = "strandline_lab"
"""The program with the commands of the laboratory."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    status: int
    out: bytes
    err: str

    @property
    def objects(self) -> list[Any]:
        """Standard output as one JSON object a line."""
        return [json.loads(line) for line in self.out.splitlines()]


async def start(*arguments: str, program: str = "strandline", **environment: str) -> Forked:
    """Start `strandline …` with pipes to its standard streams."""
    return await start_forked(program, *arguments, environment=environment)


async def start_python(*arguments: str, program: str = "strandline", **environment: str) -> Process:
    """As `start`, in an interpreter of its own."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        program,
        *arguments,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env={**os.environ, **environment},
    )


async def strandline(
    *arguments: str, stdin: bytes = b"", program: str = "strandline", **environment: str
) -> Ended:
    """Run `strandline …` to its end."""
    return await ended(await start(*arguments, program=program, **environment), stdin)


async def strandline_python(
    *arguments: str, stdin: bytes = b"", program: str = "strandline", **environment: str
) -> Ended:
    """As `strandline`, in an interpreter of its own."""
    return await ended(await start_python(*arguments, program=program, **environment), stdin)


async def ended(process: Forked | Process, stdin: bytes) -> Ended:
    """Feed the input to a command and wait for its end. Raises TimeoutError."""
    try:
        async with asyncio.timeout(COMMAND_S_MAX):
            out, err = await process.communicate(stdin)
    except BaseException:
        process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    return Ended(process.returncode, out, err.decode())
