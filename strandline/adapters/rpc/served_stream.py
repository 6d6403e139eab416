"""Writing to a stream that this process serves, and what becomes of it when the peer hangs up."""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

import grpc

HANG_UP_WAIT_S: Final = 5.0
"""How long after a failed write gRPC may take to say that the peer is gone."""

Request = TypeVar("Request")
Response = TypeVar("Response")


async def write(
    context: grpc.aio.ServicerContext[Request, Response],
    message: Response,
    *,
    hang_up_wait_s: float = HANG_UP_WAIT_S,
) -> None:
    """Send a message of a stream; does not return if the peer hung up.

    gRPC cancels the handler of a stream whose peer is gone, but a write under way fails before that, and what
    it raises comes out of a TaskGroup as a group, which gRPC takes for a defect and logs. So a failed write
    waits here for the cancellation. If none comes it was no hang-up: the error leaves, and is told.
    """
    try:
        await context.write(message)
    except grpc.aio.InternalError:
        await asyncio.sleep(hang_up_wait_s)
        raise
