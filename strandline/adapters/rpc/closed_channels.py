"""What gRPC does to the calls of a channel that is closed."""

from __future__ import annotations

import asyncio

from strandline.errors import OutcomeUnknown
from strandline.tasks import caller_is_cancelled


def told_of_close(error: asyncio.CancelledError, what: str) -> asyncio.CancelledError | OutcomeUnknown:
    """What to raise for a CancelledError of gRPC: the error itself if the calling task is being cancelled.

    gRPC also raises it in each task that waits for a call whose channel, or which itself, is closed by
    another task. A task group would take that task for one that it may forget, and its other tasks would wait
    without end.
    """
    return error if caller_is_cancelled() else OutcomeUnknown(f"{what} was closed")
