"""Does each piece of work in a process of its own: a crash or a hang ends that process, and nothing else.

A process is a fork, so it starts at once and knows nothing of the pieces before it. It ends with its parent,
however that ends.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from threading import Thread
from types import FrameType
from typing import Any, Final, Generic, NoReturn, TypeVar

from strandline.adapters.system.clock import SystemClock

Given = TypeVar("Given")
Result = TypeVar("Result")

GRACE_CPU_S: Final = 5
"""CPU time beyond the bound until the kernel kills a process that does not end itself."""
WALL_S_PER_CPU_S: Final = 20
"""A process may take this much longer than its CPU time: other processes run beside it."""
OBJECTS_BETWEEN_COLLECTIONS: Final = 20_000
"""Live objects that a process makes between two garbage collections: a short life leaves little garbage."""
FRAMES_SHOWN: Final = 8
"""Innermost frames of a process that crashed or hung."""
CRASH: Final = "crash"
HANG: Final = "hang"

_processes: Final = get_context("fork")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a process ended without a result."""

    kind: str
    """CRASH or HANG."""
    reason: str


@dataclass(frozen=True, slots=True)
class Ended(Generic[Given, Result]):
    """A piece of work that has ended: with a result, or with a failure."""

    given: Given
    result: Result | None
    failure: Failure | None
    cpu_s: float


@dataclass(slots=True, eq=False)
class _Worker(Generic[Given]):
    given: Given
    process: ForkProcess
    answer: Connection
    ends_s: float
    """When it is killed, on the parent's monotonic clock."""


def each_in_a_process(
    work: Callable[[Given], Result], pieces: Iterable[Given], *, jobs: int, cpu_s_max: float
) -> Iterator[Ended[Given, Result]]:
    """Do the work for each piece, `jobs` at once. Yields in the order in which they end.

    A piece is taken only when a process is free for it. Results are pickled. When the iterator is closed,
    no process is left.
    """
    workers: dict[Connection, _Worker[Given]] = {}
    clock = SystemClock()
    parent_lives = os.pipe()
    try:
        rest = iter(pieces)
        while True:
            while len(workers) < jobs:
                try:
                    piece = next(rest)
                except StopIteration:
                    break
                worker = _started(work, piece, cpu_s_max, parent_lives, clock.monotonic())
                workers[worker.answer] = worker
            if not workers:
                return
            soonest_s = min(worker.ends_s for worker in workers.values())
            answered = wait(list(workers), max(0.0, soonest_s - clock.monotonic()))
            now_s = clock.monotonic()
            late = [worker.answer for worker in workers.values() if worker.ends_s <= now_s]
            for answer in dict.fromkeys(
                [*(each for each in answered if isinstance(each, Connection)), *late]
            ):
                yield _ended(workers.pop(answer), cpu_s_max)
    finally:
        for worker in workers.values():
            _stop(worker)
        for end in parent_lives:
            os.close(end)


def _started(
    work: Callable[[Given], Any],
    piece: Given,
    cpu_s_max: float,
    parent_lives: tuple[int, int],
    now_s: float,
) -> _Worker[Given]:
    answer, theirs = _processes.Pipe(duplex=False)
    process = _processes.Process(target=_do, args=(work, piece, cpu_s_max, parent_lives, theirs), daemon=True)
    process.start()
    theirs.close()
    return _Worker(piece, process, answer, now_s + cpu_s_max * WALL_S_PER_CPU_S)


def _ended(worker: _Worker[Given], cpu_s_max: float) -> Ended[Given, Any]:
    """The answer of a process that has answered, has ended, or is late."""
    result, failure, cpu_s = None, None, cpu_s_max
    if worker.answer.poll():
        try:
            result, failure, cpu_s = worker.answer.recv()
        except EOFError:
            worker.process.join()
            failure = Failure(CRASH, _exit(worker.process.exitcode))
    else:
        failure = Failure(HANG, f"it did not end within {cpu_s_max * WALL_S_PER_CPU_S:g} s")
    _stop(worker)
    return Ended(worker.given, result, failure, cpu_s)


def _exit(status: int | None) -> str:
    if status is not None and status < 0:
        return f"its process was ended by {signal.Signals(-status).name}"
    return f"its process exited with {status}"


def _stop(worker: _Worker[Any]) -> None:
    worker.process.kill()
    worker.process.join()
    worker.process.close()
    worker.answer.close()


# --- within the process -------------------------------------------------------------------------


def _do(
    work: Callable[[Given], Any],
    piece: Given,
    cpu_s_max: float,
    parent_lives: tuple[int, int],
    answer: Connection,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.freeze()  # what the parent made stays
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    _end_with_parent(parent_lives)
    _bound_cpu(cpu_s_max, answer)
    result, failure = None, None
    try:
        result = work(piece)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        failure = Failure(CRASH, f"{error!r}{_where(frames)}")
    answer.send((result, failure, _cpu_s()))
    answer.close()


def _end_with_parent(parent_lives: tuple[int, int]) -> None:
    """Only the parent has the writing end open: once that is closed, this process has no one to answer."""
    reading, writing = parent_lives
    os.close(writing)

    def watch() -> None:
        os.read(reading, 1)
        os._exit(1)

    Thread(target=watch, name="parent", daemon=True).start()


def _bound_cpu(cpu_s_max: float, answer: Connection) -> None:
    def too_long(_number: int, frame: FrameType | None) -> NoReturn:
        frames = traceback.extract_stack(frame)
        answer.send((None, Failure(HANG, f"more than {cpu_s_max:g} s of CPU{_where(frames)}"), _cpu_s()))
        os._exit(1)

    signal.signal(signal.SIGXCPU, too_long)
    soft = int(_cpu_s() + cpu_s_max) + 1
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    most = soft + GRACE_CPU_S
    resource.setrlimit(
        resource.RLIMIT_CPU, (soft, most if hard == resource.RLIM_INFINITY else min(hard, most))
    )


def _cpu_s() -> float:
    """CPU time of this process."""
    used = os.times()
    return used.user + used.system


def _where(frames: traceback.StackSummary) -> str:
    shown = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-FRAMES_SHOWN:]]
    return "".join(f"\n  at {each}" for each in reversed(shown))
