"""Runs a program that is killed when its parent dies.

It runs as a script: `die_with_parent.py PARENT_PID PROGRAM ARGUMENT…`. The kernel keeps the request
over exec (prctl(2), PR_SET_PDEATHSIG), so that a killed test run leaves no process behind. It is a
separate script because code between fork and exec is not safe in a parent that has threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def dying_with_this_process() -> list[str]:
    """The words to put before a command, whose program must be a path."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid())]


def die_with(parent: int) -> None:
    """Have the kernel kill this process when `parent` dies; exit if it is already dead."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:  # it died before the request, so no signal would come
        sys.exit()


def main(parent: int, program: list[str]) -> None:
    """Replace this process by `program`, unless `parent` is already dead."""
    die_with(parent)
    os.execv(program[0], program)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
