"""One process on this machine: started here, or found again by its pid and its start time.

It is held by a pidfd: a signal or a wait never reaches another process that has reused the pid, and
waiting works for a child as for a process that another program started.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from strandline.errors import StrandlineError
from strandline.local.die_with_parent import dying_with_this_process
from strandline.local.last_words import last_words

LOG_TAIL_LINES: Final = 30
_START_TIME_FIELD: Final = 19
"""Index in /proc/[pid]/stat, counted after the command's closing parenthesis (proc(5), field 22)."""
_SOCKET_LOCAL, _SOCKET_STATE, _SOCKET_INODE = 1, 3, 9
"""Columns of /proc/net/tcp (proc_net(5))."""
_LISTEN: Final = "0A"


class ProcessFailed(StrandlineError):
    """A process of the local cluster died, or did not start to serve. The message ends with the last line
    of its log."""


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A pid, and when its process started (ticks since boot), so that a reused pid is recognized."""

    pid: int
    started: int


class Process:
    """A running or finished process with its log file."""

    def __init__(
        self,
        name: str,
        pid: int,
        pidfd: int,
        log_path: Path,
        *,
        wait_status: Callable[[int], int] | None = None,
        log_begin: int = 0,
    ) -> None:
        """`wait_status` reaps the process after its end, once; None if another process does that.
        `log_begin` is the size of the log at its start: earlier lines are of earlier processes."""
        self.name = name
        self.log_path = log_path
        self.id = ProcessId(pid, _start_time(pid))
        self._pidfd = pidfd
        self._wait_status = wait_status
        self._log_begin = log_begin
        self._exit_status: int | None = None

    @classmethod
    def spawn(
        cls,
        name: str,
        command: Sequence[str],
        *,
        log_path: Path,
        environment: Mapping[str, str],
        detached: bool = False,
    ) -> Process:
        """Start `command`; both its outputs are appended to `log_path`.

        It dies with this process (precisely: with the calling thread), unless `detached`: then it
        also leaves the terminal's process group, so that Ctrl-C does not reach it.
        """
        if not detached:
            command = [*dying_with_this_process(), *command]
        log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        log_begin = log_path.stat().st_size if log_path.exists() else 0
        pid = os.posix_spawn(
            command[0],
            list(command),
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log_path), append, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=detached,
            setsigdef=[signal.SIGPIPE],  # Python ignores it, and the child would inherit that
        )
        pidfd = os.pidfd_open(pid)
        return cls(name, pid, pidfd, log_path, wait_status=_wait_status, log_begin=log_begin)

    @classmethod
    def find(cls, name: str, wanted: ProcessId, *, log_path: Path) -> Process | None:
        """The process `wanted`, if it is still running."""
        try:
            pidfd = os.pidfd_open(wanted.pid)
        except OSError:
            return None
        try:
            process = cls(name, wanted.pid, pidfd, log_path)
        except OSError:
            os.close(pidfd)
            return None
        if process.id != wanted or not process.alive:
            process.release()
            return None
        return process

    @property
    def pid(self) -> int:
        return self.id.pid

    @property
    def alive(self) -> bool:
        if self._pidfd < 0:
            return False
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return not poll.poll(0)

    @property
    def exit_status(self) -> int | None:
        """As in subprocess (negative: the signal); None if it is running or another process reaps it."""
        if not self.alive:
            self._reap()
        return self._exit_status

    def listens(self, port: int) -> bool:
        """True if this process, and no other, has a listening socket on this TCP port."""
        sockets = _listening(port)
        own = f"/proc/{self.pid}/fd"
        try:
            return any(os.readlink(f"{own}/{number}") in sockets for number in os.listdir(own))
        except OSError:  # the process ended, or just closed a descriptor
            return False

    def send(self, number: signal.Signals) -> None:
        """Send a signal; it is no error if the process has ended."""
        if self.alive:
            signal.pidfd_send_signal(self._pidfd, number)

    async def wait(self, timeout_s: float | None = None) -> None:
        """Return once the process has ended. Raises TimeoutError."""
        if self.alive:
            loop = asyncio.get_running_loop()
            gone = asyncio.Event()
            own = os.dup(self._pidfd)  # a loop watches a descriptor only once, but several tasks may wait
            loop.add_reader(own, gone.set)
            try:
                async with asyncio.timeout(timeout_s):
                    await gone.wait()
            finally:
                loop.remove_reader(own)
                os.close(own)
        self._reap()
        self.release()

    async def stop(self, *, clean: bool, timeout_s: float) -> None:
        """SIGTERM and wait, SIGKILL after `timeout_s`; SIGKILL at once if not `clean`."""
        if clean:
            self.send(signal.SIGTERM)
            self.send(signal.SIGCONT)
            try:
                return await self.wait(timeout_s)
            except TimeoutError:
                pass
        self.send(signal.SIGKILL)
        await self.wait()

    def release(self) -> None:
        """Give up the handle, whether or not the process is running; its later fate is not known."""
        if self.alive:
            self._wait_status = None
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _reap(self) -> None:
        """Reap a process that has ended, unless that is another's task."""
        if self._wait_status is not None and self._exit_status is None:
            self._exit_status = os.waitstatus_to_exitcode(self._wait_status(self.pid))

    def failure(self, what: str) -> ProcessFailed:
        """The error for `what`, with the line of the log that says most. A traceback of it has more lines."""
        status = self.exit_status
        ended = "" if status is None else f" (exit status {status})"
        tail = self.log_tail()
        words = last_words(tail.splitlines())
        said = f"the last line of {self.log_path}: {words}" if words else f"{self.log_path} has no line of it"
        failure = ProcessFailed(f"{self.name} {what}{ended}; {said}")
        failure.add_note(f"the end of {self.log_path}:\n{tail}")
        return failure

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        try:
            with self.log_path.open(errors="replace") as log:
                log.seek(self._log_begin)
                return "".join(deque(log, maxlen=lines))
        except FileNotFoundError:
            return ""


class Spawn(Protocol):
    """Starts a process, as `Process.spawn` does."""

    def __call__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log_path: Path,
        environment: Mapping[str, str],
        detached: bool = False,
    ) -> Process: ...


def _wait_status(pid: int) -> int:
    """Reap a child."""
    return os.waitpid(pid, 0)[1]


def _start_time(pid: int) -> int:
    """Raises OSError if there is no such process."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat[stat.rindex(")") + 2 :].split()[_START_TIME_FIELD])


def _listening(port: int) -> set[str]:
    """The sockets that listen on a port, as /proc/[pid]/fd names them."""
    rows = [
        row.split()
        for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
        if table.exists()
        for row in table.read_text().splitlines()[1:]
    ]
    return {
        f"socket:[{row[_SOCKET_INODE]}]"
        for row in rows
        if row[_SOCKET_STATE] == _LISTEN and int(row[_SOCKET_LOCAL].rpartition(":")[2], 16) == port
    }
