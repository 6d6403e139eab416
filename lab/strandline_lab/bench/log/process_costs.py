"""What processes cost while work is done: processor time, switches of context, system calls.

These do not depend on how busy the machine is with other work, as a duration does.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT
from tempfile import TemporaryDirectory
from typing import Final

from strandline_lab.bench.report import cpu_s

ATTACHED_S_MAX: Final = 30.0
_CALL_ROW: Final = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$")


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of one process, since its start or between two moments."""

    cpu_us: float
    """In user mode and in the kernel, all threads."""
    wake_ups: float
    """How often a thread slept and was woken (voluntary switches)."""

    def __sub__(self, before: Costs) -> Costs:
        return Costs(self.cpu_us - before.cpu_us, self.wake_ups - before.wake_ups)

    def __mul__(self, factor: float) -> Costs:
        return Costs(self.cpu_us * factor, self.wake_ups * factor)


def costs_of(pid: int) -> Costs:
    """The costs of a process until now. The switches of threads that have ended are not in it."""
    switches = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        for line in status.read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches:"):
                switches += int(line.split()[1])
    return Costs(cpu_s(pid) * 1e6, switches)


class SystemCalls:
    """Counts the system calls of processes by strace, from `begin` to `end`. It slows them several times."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids
        self._folder = TemporaryDirectory()
        self._tracers: dict[str, asyncio.subprocess.Process] = {}

    @staticmethod
    def available() -> bool:
        return shutil.which("strace") is not None

    async def begin(self) -> None:
        """Raises TimeoutError if strace does not attach, as it needs the right to trace these processes."""
        for name, pid in self._pids.items():
            tracer = await asyncio.create_subprocess_exec(
                "strace", "-c", "-f", "-p", str(pid), "-o", str(self._file(name)),
                stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert tracer.stderr is not None
            async with asyncio.timeout(ATTACHED_S_MAX):
                await tracer.stderr.readline()  # "Process … attached"
            self._tracers[name] = tracer

    async def end(self) -> dict[str, dict[str, int]]:
        """The number of calls by name, for each process."""
        counts = {}
        for name, tracer in self._tracers.items():
            tracer.send_signal(SIGINT)
            await tracer.communicate()
            counts[name] = counted(self._file(name).read_text().splitlines())
        self._folder.cleanup()
        return counts

    def _file(self, name: str) -> Path:
        return Path(self._folder.name) / name


def counted(summary: Sequence[str]) -> dict[str, int]:
    """The number of calls by name, from the table that `strace -c` prints.

    >>> counted([" 60.00    0.000030           2        11           futex", "100.00    0.1   11   total"])
    {'futex': 11}
    """
    rows = [row for line in summary if (row := _CALL_ROW.match(line)) is not None]
    return {row[2]: int(row[1]) for row in rows if row[2] != "total"}
