"""Starts Python programs as forks of one server, `tests.forking.server`, which starts with the first."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import sys
from asyncio.streams import FlowControlMixin
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Final

from strandline.local.die_with_parent import dying_with_this_process
from strandline.local.process import Process
from strandline.local.service import MALLOC

ROOT: Final = Path(__file__).parents[2]
ANSWER_BYTES_MAX: Final = 64
ANSWER_S_MAX: Final = 60.0
"""The first answer comes after all imports."""
LINE_BYTES_MAX: Final = 1 << 20


class ForkServer:
    """The server's process, and requests to it."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(ANSWER_S_MAX)
        command = [*dying_with_this_process(), sys.executable, "-m", "tests.forking.server"]
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        with theirs:
            os.posix_spawn(
                command[0],
                command,
                {**os.environ, **MALLOC, "PYTHONPATH": path, "GRPC_VERBOSITY": "NONE"},
                file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), number) for number in (0, 1)],
            )

    def fork(
        self,
        module: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        streams: tuple[int, int, int],
    ) -> int:
        """Run `python -m MODULE ARGUMENT…` with these standard streams; its pid."""
        program = {
            "module": module,
            "arguments": list(arguments),
            "environment": dict(environment),
            "folder": str(Path.cwd()),
        }
        _ = socket.send_fds(self._channel, [json.dumps({"fork": program}).encode()], streams)
        return self._answer()

    def reap(self, pid: int) -> int:
        """The wait status of a program that has ended."""
        _ = self._channel.send(json.dumps({"reap": pid}).encode())
        return self._answer()

    def _answer(self) -> int:
        answer = self._channel.recv(ANSWER_BYTES_MAX)
        assert answer, "the fork server has ended: its standard error says why"
        return int(answer)


@cache
def fork_server() -> ForkServer:
    """The server of this process. The main thread has to ask first: the server dies with the thread."""
    return ForkServer()


def spawn(
    name: str,
    command: Sequence[str],
    *,
    log_path: Path,
    environment: Mapping[str, str],
    detached: bool = False,
) -> Process:
    """As `Process.spawn`; what is `python -m MODULE …` and not detached is a fork."""
    match command:
        case [sys.executable, "-m", module, *arguments] if not detached:
            log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with Path(os.devnull).open("rb") as nothing, log_path.open("ab") as log:
                streams = (nothing.fileno(), log.fileno(), log.fileno())
                pid = fork_server().fork(module, arguments, environment, streams)
            return Process(name, pid, os.pidfd_open(pid), log_path, wait_status=fork_server().reap)
    return Process.spawn(name, command, log_path=log_path, environment=environment, detached=detached)


class Forked:
    """A program with pipes to its standard streams; its interface is that of asyncio's subprocesses."""

    def __init__(self, pid: int, stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.stderr: asyncio.StreamReader | None = None
        self._pidfd = os.pidfd_open(pid)
        self._status: int | None = None

    @property
    def returncode(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        if self._status is None:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            if poll.poll(0):
                os.close(self._pidfd)
                self._status = os.waitstatus_to_exitcode(fork_server().reap(self.pid))
        return self._status

    async def wait(self) -> int:
        """Return its exit status once it has ended."""
        if self.returncode is None:
            loop = asyncio.get_running_loop()
            gone = asyncio.Event()
            own = os.dup(self._pidfd)
            loop.add_reader(own, gone.set)
            try:
                _ = await gone.wait()
            finally:
                _ = loop.remove_reader(own)
                os.close(own)
        assert self.returncode is not None
        return self.returncode

    async def communicate(self, stdin: bytes = b"") -> tuple[bytes, bytes]:
        """Write the input, close it, and read both outputs to their ends."""
        async with asyncio.TaskGroup() as tasks:
            out = tasks.create_task(self.stdout.read())
            err = None if self.stderr is None else tasks.create_task(self.stderr.read())
            try:
                self.stdin.write(stdin)
                await self.stdin.drain()
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has ended without reading all
            self.stdin.close()
            _ = await self.wait()
        return out.result(), b"" if err is None else err.result()

    def send_signal(self, number: signal.Signals) -> None:
        """It is no error if it has ended."""
        if self.returncode is None:
            signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


async def start_forked(
    module: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    stderr: IO[bytes] | None = None,
) -> Forked:
    """Start `python -m MODULE ARGUMENT…` with pipes to its standard streams; `stderr` may be a file.

    `environment` is added to this process's.
    """
    loop = asyncio.get_running_loop()
    (input_end, our_input), (our_output, output_end), (our_errors, errors_end) = (os.pipe() for _ in range(3))
    errors = errors_end if stderr is None else stderr.fileno()
    try:
        pid = fork_server().fork(
            module, arguments, {**os.environ, **(environment or {})}, (input_end, output_end, errors)
        )
    finally:
        for end in (input_end, output_end, errors_end):
            os.close(end)
    transport, protocol = await loop.connect_write_pipe(FlowControlMixin, os.fdopen(our_input, "wb", 0))
    process = Forked(pid, asyncio.StreamWriter(transport, protocol, None, loop), await _reader(our_output))
    if stderr is None:
        process.stderr = await _reader(our_errors)
    else:
        os.close(our_errors)
    return process


async def _reader(descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
    )
    return reader
