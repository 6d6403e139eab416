"""What signals do: the first one cancels a run, so that it cleans up; SIGTERM asks a client to end."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

from strandline_lab.chaos.history_lines import Stopped

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED: Final = 128 + signal.SIGINT
"""The exit status after a signal."""


def cancelled_by_signals() -> None:
    """The first signal cancels the task that calls this. Later signals do not interrupt the cleanup."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def interrupted() -> None:
        for number in SIGNALS:
            loop.add_signal_handler(number, lambda: None)
        task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, interrupted)


def stopped_by_sigterm() -> Stopped:
    """True once the process has received SIGTERM, which does nothing else then."""
    received: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    return lambda: bool(received)
