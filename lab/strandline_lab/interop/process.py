"""Runs the commands of a suite, each with a limit, its output in a file."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

ROOT: Final = Path(__file__).resolve().parents[3]
PYTHONPATH: Final = f"{ROOT}{os.pathsep}{ROOT / 'lab'}"
"""Where the programs and plugins of the suites find strandline and this package."""
ENDED_S_MAX: Final = 10.0


def run(
    command: Sequence[str | Path],
    output: Path,
    *,
    seconds: float,
    cwd: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    answer: Callable[[str], bool] | None = None,
) -> int | None:
    """The exit status of a command; None if it did not end within `seconds`, then its processes are killed.

    `output` gets what it prints. `answer` gets each line; if it returns True, the command gets an empty line.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    with (
        output.open("wb") as file,
        subprocess.Popen(
            [str(word) for word in command],
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE if answer else subprocess.DEVNULL,
            stdout=subprocess.PIPE if answer else file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            if answer and not _answered(process, file, answer, seconds):
                return None
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)


def _answered(
    process: subprocess.Popen[bytes], file: IO[bytes], answer: Callable[[str], bool], seconds: float
) -> bool:
    """Copies what the command prints until it prints no more. False if that took longer than `seconds`."""
    assert process.stdin and process.stdout
    late = threading.Timer(seconds, _kill, (process,))
    late.start()
    try:
        for line in process.stdout:
            file.write(line)
            if answer(line.decode(errors="replace").rstrip()):
                process.stdin.write(b"\n")
                process.stdin.flush()
        return not late.finished.is_set()
    finally:
        late.cancel()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills the command's process group, so that nothing of a suite outlives it."""
    _kill(process)
    process.wait(ENDED_S_MAX)


def printed(command: Sequence[str | Path], *, cwd: Path = ROOT) -> str:
    """The first line that a short command prints; empty if it fails."""
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, text=True, check=False, capture_output=True, timeout=60
    )
    lines = (done.stdout or done.stderr).splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else ""
