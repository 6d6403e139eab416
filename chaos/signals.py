"""A run that is told to end undoes what it did first."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED: Final = 128 + signal.SIGINT
"""The exit status then."""


def cancelled_by_signals() -> None:
    """The first of them cancels the task that calls this. What is undone then no other one cuts short."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def interrupted() -> None:
        for number in SIGNALS:
            loop.add_signal_handler(number, lambda: None)
        task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, interrupted)
