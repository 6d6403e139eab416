"""Runs processes of a measurement: they take commands on standard input and write JSON lines to standard
output.

It has both ends: `WorkerProcesses` starts and commands the processes, and each of them reads `commands`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from strandline.local.die_with_parent import dying_with_this_process

END_S_MAX: Final = 30.0
LINE_BYTES_MAX: Final = 64 << 20
READY: Final = "ready"
"""The first line of a worker: the time before it is the start of a Python process."""


class WorkerProcesses:
    """Runs `python -m MODULE ARGUMENT…` once for each list of arguments, from entry to exit. These processes
    are killed when this one dies."""

    def __init__(self, module: str, arguments: Sequence[Sequence[str]]) -> None:
        python = (*dying_with_this_process(), sys.executable)
        self._commands = [(*python, "-m", module, *each) for each in arguments]
        self._processes: list[Process] = []

    def __len__(self) -> int:
        return len(self._commands)

    @property
    def exit_codes(self) -> list[int]:
        """The exit codes of the workers that have ended."""
        return [each.returncode for each in self._processes if each.returncode is not None]

    async def __aenter__(self) -> Self:
        for command in self._commands:
            self._processes.append(
                await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=LINE_BYTES_MAX)
            )
        for process in self._processes:
            assert process.stdout is not None
            await process.stdout.readline()  # the line `ready`, or the end of a worker that failed
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the input of all workers, and kills those that do not end in time."""
        self.end_input()
        try:
            async with asyncio.timeout(END_S_MAX):
                for process in self._processes:
                    await process.wait()
        except TimeoutError:
            for process in self._processes:
                if process.returncode is None:
                    process.kill()

    def send(self, command: str, *workers: int) -> None:
        """Sends a command to these workers, by number; to all if none is named."""
        for number in workers or range(len(self._processes)):
            stdin = self._processes[number].stdin
            assert stdin is not None
            stdin.write(f"{command}\n".encode())

    def end_input(self) -> None:
        """Ends the input of the workers, which ends them."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()

    async def lines(self, worker: int) -> AsyncIterator[Mapping[str, Any]]:
        """The lines of a worker, by number, until it ends."""
        process = self._processes[worker]
        assert process.stdout is not None
        while line := await process.stdout.readline():
            yield json.loads(line)
        await process.wait()


async def commands() -> AsyncIterator[list[str]]:
    """The words of each command, until the input ends. The first step reports that this worker is ready."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    print(READY, flush=True)
    while words := (await reader.readline()).decode().split():
        yield words
