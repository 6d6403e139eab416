"""Work in processes of their own: what crashes or hangs ends alone, and none outlives its parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import eventually

# The parent is a program of its own: pytest has threads, and a fork of a process with threads may hang.
PARENT = """
import json, os, sys
from strandline_lab.simulation.reporting.processes import each_in_a_process

def loop_forever():
    while True:
        pass

def work(piece):
    match piece:
        case "double": return 2 * 21
        case "crash": raise ValueError("the piece was bad")
        case "exit": os._exit(3)
        case "killed": os.kill(os.getpid(), 9)
        case "hang": loop_forever()
        case "pid":
            os.write(1, b"%d\\n" % os.getpid())  # at once: the other piece writes there too
            loop_forever()

for ended in each_in_a_process(work, sys.argv[2:], jobs=2, cpu_s_max=float(sys.argv[1])):
    failure = ended.failure and [ended.failure.kind, ended.failure.reason]
    print(json.dumps([ended.given, ended.result, failure, ended.cpu_s]), flush=True)
"""


def parent(cpu_s_max: float, *pieces: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PARENT, str(cpu_s_max), *pieces]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(cpu_s_max: float, *pieces: str) -> dict[str, list[Any]]:
    """Result, failure and CPU time of each piece."""
    with parent(cpu_s_max, *pieces) as process:
        out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert errors == ""
    lines = [json.loads(line) for line in out.splitlines()]
    assert sorted(line[0] for line in lines) == sorted(pieces)
    return {line[0]: line[1:] for line in lines}


def test_a_piece_that_crashes_is_a_failure_of_its_own() -> None:
    said = ended(60, "crash", "exit", "killed", "double")
    assert said["double"][:2] == [42, None]
    assert said["exit"][:2] == [None, ["crash", "its process exited with 3"]]
    assert said["killed"][:2] == [None, ["crash", "its process was ended by SIGKILL"]]
    result, (kind, reason), _ = said["crash"]
    assert (result, kind) == (None, "crash")
    assert reason.startswith("ValueError('the piece was bad')\n  at <string>:")


def test_a_piece_that_hangs_is_ended_at_its_bound_of_cpu_time() -> None:
    said = ended(0.5, "hang", "double")
    assert said["double"][:2] == [42, None]
    result, (kind, reason), cpu_s = said["hang"]
    assert (result, kind) == (None, "hang")
    assert "more than 0.5 s of CPU" in reason
    assert "loop_forever" in reason
    assert cpu_s >= 0.5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_no_process_outlives_its_parent(number: signal.Signals) -> None:
    with parent(600, "pid", "pid") as process:
        assert process.stdout is not None
        try:
            children = [int(process.stdout.readline()) for _ in range(2)]
            process.send_signal(number)
            process.wait()
            await eventually(lambda: not any(_runs(child) for child in children), what="the children's end")
        finally:
            process.kill()


def _runs(pid: int) -> bool:
    """A child that has ended, but that no process waited for, does not run."""
    try:
        os.kill(pid, 0)
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
