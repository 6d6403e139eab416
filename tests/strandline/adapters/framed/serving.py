"""A port for streams of frames, as a broker has one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from strandline.adapters.framed.port import FramedPort
from strandline.adapters.service_host import service_host
from strandline.errors import StrandlineError
from strandline.local.ports import LOOPBACK
from strandline.ports import Caller, Served
from strandline.vocabulary.metadata import Endpoint
from tests.broker.support.replicas import HOST, settings


class NoLogins:
    """The `CallerLogins` of a port without them."""

    calls: Sequence[Served] = ()

    def admit(self, caller: Caller, session: str | None) -> Caller:
        raise AssertionError("nobody has to log in")


def _ignored(_error: StrandlineError, _peer: str) -> None:
    pass


def everybody(_caller: Caller) -> StrandlineError | None:
    return None


@asynccontextmanager
async def serving(
    served: Sequence[Served],
    *,
    on_refused: Callable[[StrandlineError, str], None] = _ignored,
    stranger: Callable[[Caller], StrandlineError | None] = everybody,
    **given: Any,
) -> AsyncIterator[Endpoint]:
    """Serves these streams at a free port. Yields the address."""
    chosen = settings(replication_port=0, **given)
    host = HOST if chosen.security_protocol == "PLAINTEXT" else service_host(chosen)
    port = FramedPort(chosen, host, on_refused, stranger)
    endpoint = port.bind(Endpoint(1, LOOPBACK, 1))
    port.offer(served, NoLogins())
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(port.run())
        yield endpoint
        running.cancel()
