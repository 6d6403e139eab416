"""What gRPC does to the calls of a channel that is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from strandline.errors import OutcomeUnknown


@contextmanager
def closed_is_unknown(what: str) -> Iterator[None]:
    """Raises OutcomeUnknown where gRPC raises CancelledError in a task that was not cancelled.

    It does so in each task that waits for a call whose channel, or which itself, is closed by another task. A
    task group would take that task for one that it may forget, and its other tasks would wait without end.
    """
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise OutcomeUnknown(f"{what} was closed") from None
