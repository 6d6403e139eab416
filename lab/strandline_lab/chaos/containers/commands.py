"""Runs other programs (docker, iptables, apt-get), and quotes their output when they fail."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from typing import IO, Any, Final, ParamSpec, TypeVar

from strandline_lab.chaos.world import WorldFailed

TIMEOUT_S: Final = 300.0
SAID_CHARACTERS_MAX: Final = 2_000
TRIES_MAX: Final = 3

P = ParamSpec("P")
T = TypeVar("T")


class CommandFailed(WorldFailed):
    """A program ended with a status other than 0; the message quotes the end of its output."""


class CommandKilled(CommandFailed):
    """A signal ended the program, so what it was asked for may be done or not."""


def again_if_killed(action: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Repeats an action whose program a signal ended, `TRIES_MAX` times in all.

    Only for actions that may be done twice. Docker's client was seen to crash (SIGSEGV) as it asked an
    engine that was well.
    """

    @wraps(action)
    async def repeated(*arguments: P.args, **named: P.kwargs) -> T:
        for _ in range(TRIES_MAX - 1):
            with contextlib.suppress(CommandKilled):
                return await action(*arguments, **named)
        return await action(*arguments, **named)

    return repeated


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
    status = process.returncode or 0
    if status != 0:
        reason = complained.decode(errors="replace").strip() or (said or b"").decode(errors="replace")
        failed = CommandKilled if status < 0 else CommandFailed
        raise failed(f"{_shown(command)}: exit status {status}: {reason[-SAID_CHARACTERS_MAX:]}")
    return (said or b"").decode(errors="replace")


def _shown(command: tuple[str, ...]) -> str:
    return " ".join(command)[:200]
