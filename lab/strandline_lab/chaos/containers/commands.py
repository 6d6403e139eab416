"""Runs other programs (docker, iptables, apt-get), and quotes their output when they fail."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from typing import IO, Final

from strandline_lab.chaos.world import WorldFailed

TIMEOUT_S: Final = 300.0
SAID_CHARACTERS_MAX: Final = 2_000


class CommandFailed(WorldFailed):
    """A program ended with a status other than 0; the message quotes the end of its output."""


async def run(
    *command: str,
    environment: Mapping[str, str] | None = None,
    given: IO[bytes] | bytes | None = None,
    into: IO[bytes] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> str:
    """Runs the command and returns its standard output; nothing if that goes `into` a file. `given` is its
    standard input.

    Raises CommandFailed, also if the program does not exist or takes longer than `timeout_s`.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=environment,
            stdin=PIPE if isinstance(given, bytes) else given if given is not None else DEVNULL,
            stdout=PIPE if into is None else into,
            stderr=PIPE,
        )
    except OSError as error:
        raise CommandFailed(f"{command[0]} cannot be run: {error.strerror}") from error
    try:
        async with asyncio.timeout(timeout_s):
            said, complained = await process.communicate(given if isinstance(given, bytes) else None)
    except TimeoutError:
        raise CommandFailed(f"{_shown(command)}: did not end within {timeout_s:.0f} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode != 0:
        reason = complained.decode(errors="replace").strip() or (said or b"").decode(errors="replace")
        raise CommandFailed(
            f"{_shown(command)}: exit status {process.returncode}: {reason[-SAID_CHARACTERS_MAX:]}"
        )
    return (said or b"").decode(errors="replace")


def _shown(command: tuple[str, ...]) -> str:
    return " ".join(command)[:200]
