"""One process: started, signalled, waited for and found again (DESIGN, "Running it")."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.local import die_with_parent
from strandline.local.process import Process, ProcessId
from tests.waiting import eventually

SLEEPER = [sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)\n"
    "while True: signal.pause()",
]


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "process.log"


@pytest.fixture
def spawned() -> Iterator[list[Process]]:
    """Processes that end after the test, with any result."""
    processes: list[Process] = []
    yield processes
    for process in processes:
        process.send(signal.SIGKILL)


async def up(process: Process) -> Process:
    await eventually(lambda: "up" in process.log_tail())
    return process


async def test_both_outputs_go_to_the_log(log_path: Path) -> None:
    program = "import sys; print('to out', flush=True); print('to err', file=sys.stderr); sys.exit(3)"
    process = Process.spawn("it", [sys.executable, "-c", program], log_path=log_path, environment=os.environ)
    await process.wait(10)
    assert log_path.read_text() == "to out\nto err\n"
    assert (process.alive, process.exit_status) == (False, 3)
    failure = process.failure("died")
    assert str(failure) == f"it died (exit status 3); the last line of {log_path}: to err"
    assert failure.__notes__ == [f"the end of {log_path}:\nto out\nto err\n"]


async def test_lines_of_an_earlier_process_are_not_taken_for_those_of_this_one(log_path: Path) -> None:
    """A process that hangs before its first line would be said to have stopped, by its predecessor's last."""
    log_path.parent.mkdir()
    log_path.write_text("stopped\n")
    process = Process.spawn("it", ["/bin/true"], log_path=log_path, environment={})
    await process.wait(10)
    assert str(process.failure("died")) == f"it died (exit status 0); {log_path} has no line of it"


async def test_the_environment_is_the_one_given(log_path: Path) -> None:
    program = "import os; print(os.environ['STRANDLINE_PORT'], 'HOME' in os.environ)"
    process = Process.spawn(
        "it", [sys.executable, "-c", program], log_path=log_path, environment={"STRANDLINE_PORT": "1"}
    )
    await process.wait(10)
    assert log_path.read_text() == "1 False\n"


@pytest.mark.parametrize(
    ("program", "timeout_s", "ended_by"),
    [(SLEEPER, 10, signal.SIGTERM), (STUBBORN, 0.1, signal.SIGKILL)],
    ids=["SIGTERM", "SIGKILL, if it ignores SIGTERM"],
)
async def test_a_clean_stop_is_sigterm_and_in_the_end_sigkill(
    log_path: Path, spawned: list[Process], program: list[str], timeout_s: float, ended_by: int
) -> None:
    process = Process.spawn("it", program, log_path=log_path, environment=os.environ)
    spawned.append(process)
    await up(process)
    await process.stop(clean=True, timeout_s=timeout_s)
    assert process.exit_status == -ended_by


async def test_a_paused_process_can_be_stopped_cleanly(log_path: Path, spawned: list[Process]) -> None:
    process = Process.spawn("it", SLEEPER, log_path=log_path, environment=os.environ)
    spawned.append(process)
    await up(process)
    process.send(signal.SIGSTOP)
    await process.stop(clean=True, timeout_s=10)
    assert process.exit_status == -signal.SIGTERM


async def test_several_may_wait_for_one_process(log_path: Path, spawned: list[Process]) -> None:
    process = Process.spawn("it", SLEEPER, log_path=log_path, environment=os.environ)
    spawned.append(process)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(process.wait())
        with pytest.raises(TimeoutError):
            await process.wait(0.01)
        process.send(signal.SIGKILL)
    assert not process.alive


async def test_signals_to_a_process_that_is_gone_are_no_error(log_path: Path) -> None:
    process = Process.spawn("it", [sys.executable, "-c", ""], log_path=log_path, environment=os.environ)
    await process.wait(10)
    process.send(signal.SIGTERM)
    await process.stop(clean=True, timeout_s=1)
    await process.wait()


async def test_a_running_process_is_found_by_pid_and_start_time(
    log_path: Path, spawned: list[Process]
) -> None:
    process = Process.spawn("it", SLEEPER, log_path=log_path, environment=os.environ)
    spawned.append(process)
    found = Process.find("it", process.id, log_path=log_path)
    assert found is not None
    assert (found.alive, found.pid) == (True, process.pid)
    await found.stop(clean=False, timeout_s=10)
    await process.wait(10)
    assert Process.find("it", process.id, log_path=log_path) is None


async def test_a_recycled_pid_is_not_mistaken(log_path: Path) -> None:
    """Another process under the same number has another start time: it is left alone."""
    assert Process.find("it", ProcessId(os.getpid(), 1), log_path=log_path) is None


@pytest.mark.parametrize("detached", [False, True])
async def test_children_die_with_their_parent_unless_detached(
    log_path: Path, tmp_path: Path, detached: bool
) -> None:
    """A test run that is killed leaves nothing behind; `strandline up` leaves its cluster."""
    program = (
        "import os, pathlib, signal; from strandline.local.process import Process\n"
        f"child = Process.spawn('it', {SLEEPER!r}, log_path=pathlib.Path({str(log_path)!r}),"
        f" environment=os.environ, detached={detached})\n"
        "print(child.id.pid, child.id.started, flush=True)\n"
        "signal.pause()\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    pid, started = map(int, (await parent.stdout.readline()).split())
    child = Process.find("it", ProcessId(pid, started), log_path=log_path)
    assert child is not None
    try:
        await up(child)
        parent.kill()
        await parent.wait()
        if detached:
            assert child.alive
        else:
            await child.wait(10)
    finally:
        child.send(signal.SIGKILL)
        child.release()


def test_a_child_whose_parent_died_first_does_not_start() -> None:
    """The wish to die is made after the fork, so the parent may be gone by then."""
    not_the_parent = "1" if os.getpid() != 1 else "2"
    shim = [sys.executable, die_with_parent.__file__, not_the_parent, sys.executable, "-c", "print('ran')"]
    ended = subprocess.run(shim, capture_output=True, text=True, timeout=10, check=True)
    assert ended.stdout == ""
