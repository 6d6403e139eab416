"""Standard output into a pipe: what a command writes arrives whole, or the command fails."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.broker.storage.log import PartitionLog
from strandline.records import encode_values
from tests.broker.storage.support.disk import SMALL, ManualClock
from tests.waiting import eventually

VALUE = "0123456789abcde\n" * (16 << 10)
"""Four times what a pipe takes."""
FULL_BYTES = 14 << 12
"""A pipe of 16 pages has these bytes at least when it takes no more: a first short line may have a page."""
BUFFERED, UNBUFFERED = {"PYTHONUNBUFFERED": ""}, {"PYTHONUNBUFFERED": "1"}
WRITES = """
import os, signal, sys
from strandline.adapters.system.standard_streams import open_standard_streams
open_standard_streams()
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
os.set_blocking(1, os.environ["BLOCKING"] == "yes")
for number in range(8):
    sys.stdout.write(f"{number}" * (1 << 18) + chr(10))
    sys.stdout.buffer.write(b"-" * (1 << 18) + b"\\n")
    sys.stdout.buffer.flush()
signal.setitimer(signal.ITIMER_REAL, 0)
"""


@pytest.fixture
def segment(tmp_path: Path) -> str:
    """A segment file with one long record."""
    log = PartitionLog.open(tmp_path, SMALL, clock=ManualClock(), clean=True, files=SYSTEM_FILES)
    log.appending.begin_epoch(3)
    log.appending.as_leader(encode_values([VALUE.encode()], timestamp_ms=7), 3, now_ms=0)
    log.close(clean=True)
    (path,) = tmp_path.glob("*.log")
    return str(path)


def waiting_bytes(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("environment", [BUFFERED, UNBUFFERED], ids=["buffered", "unbuffered"])
async def test_a_signal_in_a_long_write_cuts_no_line(segment: str, environment: dict[str, str]) -> None:
    """write(2) that a signal interrupts has written a part. The image sets PYTHONUNBUFFERED."""
    command = [sys.executable, "-m", "strandline", "log", "dump", "--records", "-o", "json", segment]
    pipe, end = os.pipe()
    process = await asyncio.create_subprocess_exec(*command, stdout=end, env={**os.environ, **environment})
    os.close(end)
    with os.fdopen(pipe) as lines:
        await eventually(lambda: waiting_bytes(pipe) >= FULL_BYTES, what="the pipe is full")
        process.send_signal(signal.SIGSTOP)
        await eventually(lambda: is_stopped(process.pid), what="the command is stopped")
        process.send_signal(signal.SIGCONT)
        batch, record = map(json.loads, lines)
    assert await process.wait() == 0
    assert (batch["records"], record["value"]) == (1, VALUE)


@pytest.mark.parametrize("blocking", ["yes", "no"])
@pytest.mark.parametrize("environment", [BUFFERED, UNBUFFERED], ids=["buffered", "unbuffered"])
def test_signals_and_a_pipe_that_does_not_block_cut_no_line(
    environment: dict[str, str], blocking: str
) -> None:
    """O_NONBLOCK belongs to the open file: a process that shares the pipe or the terminal may have set it."""
    done = subprocess.run(
        [sys.executable, "-c", WRITES],
        env={**os.environ, **environment, "BLOCKING": blocking},
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [(line[:1], len(line)) for line in lines] == [
        each for number in range(8) for each in ((b"%d" % number, 1 << 18), (b"-", 1 << 18))
    ]


@pytest.mark.parametrize("environment", [BUFFERED, UNBUFFERED], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    ("target", "said"), [("/dev/full", "No space left on device"), ("&-", "Bad file descriptor")]
)
def test_output_that_cannot_be_written_fails_the_command(
    segment: str, environment: dict[str, str], target: str, said: str
) -> None:
    script = f"{sys.executable} -m strandline log dump -o json {segment} >{target}"
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, **environment}, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
