"""Writes to a stream that this process serves, and handles a peer that hangs up."""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

import grpc

HANG_UP_WAIT_S: Final = 5.0
"""How long after a failed write gRPC may take to report that the peer is gone."""

Request = TypeVar("Request")
Response = TypeVar("Response")


async def begin(
    context: grpc.aio.ServicerContext[Request, Response], *, hang_up_wait_s: float = HANG_UP_WAIT_S
) -> None:
    """Open the answering side of a stream, before anything is written to it; as `write` if the peer hung up.

    gRPC would do it with the first message. If that write is cancelled on its way, gRPC opens the side
    again when the stream is to end, which fails: the peer would wait for an end that never comes.
    """
    try:
        await context.send_initial_metadata(())
    except grpc.aio.InternalError:
        await asyncio.sleep(hang_up_wait_s)
        raise


async def write(
    context: grpc.aio.ServicerContext[Request, Response],
    message: Response,
    *,
    hang_up_wait_s: float = HANG_UP_WAIT_S,
) -> None:
    """Send a message of a stream; does not return if the peer hung up.

    gRPC cancels the handler of a stream whose peer is gone, but a pending write fails before that.
    Its error would leave a TaskGroup as a group, which gRPC regards as a defect and logs. So a
    failed write waits here for the cancellation. If none comes, the peer did not hang up, and the
    error is raised.
    """
    try:
        await context.write(message)
    except grpc.aio.InternalError:
        await asyncio.sleep(hang_up_wait_s)
        raise
