"""This machine as a `Host`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import SystemRandom
from typing import ParamSpec, TypeVar
from uuid import uuid4

from strandline.adapters.rpc.blocking import GrpcBlockingTransport
from strandline.adapters.rpc.transport import GrpcTransport
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.system.files import SYSTEM_FILES
from strandline.host import Host

P = ParamSpec("P")
T = TypeVar("T")


class SystemThreads:
    """`Threads` of the event loop's own pool."""

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(function, *args, **kwargs)


def system_host() -> Host:
    return Host(
        clock=SystemClock(),
        files=SYSTEM_FILES,
        threads=SystemThreads(),
        new_id=new_id,
        random=SystemRandom(),
        transport=GrpcTransport,
        blocking_transport=GrpcBlockingTransport,
    )


def new_id() -> str:
    return uuid4().hex
