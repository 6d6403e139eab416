"""A term whose session does something right after a read or a write."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.service_host import service_host
from strandline.adapters.zookeeper import znodes
from strandline.config.services.controller import ControllerSettings
from strandline.controller.term.fenced_session import FencedSession
from strandline.controller.term.term import Term
from strandline.ports import Coordination, Operation, Znode
from strandline.vocabulary.admin import NewTopic
from strandline.vocabulary.metadata import Endpoint
from tests.controller.support.running import MULTI_BYTES, running
from tests.controller.support.znodes_seen import lead, register

Happens = Callable[[], Awaitable[None]]


class Between:
    """A session that counts what it reads. What waits for a path happens once, after the path is next read
    or written."""

    def __init__(self, session: Coordination) -> None:
        self._session = session
        self.after: dict[str, Happens] = {}
        self.reads: Counter[str] = Counter()

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)

    async def get(self, path: str) -> Znode:
        found = await self._session.get(path)
        self.reads[path] += 1
        await self._happen(path)
        return found

    async def children(self, path: str) -> list[str]:
        found = await self._session.children(path)
        await self._happen(path)
        return found

    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        answer = await self._session.multi(operations)
        for operation in operations:
            await self._happen(operation.path)
        return answer

    async def _happen(self, path: str) -> None:
        if (happens := self.after.pop(path, None)) is not None:
            await happens()


@asynccontextmanager
async def term_alone(
    zookeeper: str,
    session: Coordination,
    live: Sequence[int],
    replicas: Sequence[int],
    *others: Sequence[int],
    **settings: Any,
) -> AsyncIterator[tuple[Term, Between]]:
    """A term that goes on in the epoch of a controller that has ended: nothing else acts in it.

    The brokers `live` are registered. Topic "t" has a partition with these replicas, and one for each of the
    `others`; all are in sync, and the first one leads.
    """
    epochs = await register(session, live)
    async with running(zookeeper) as controller:
        await controller.wait_active()
        (made,) = await controller.admin.create_topics([NewTopic("t", 0, assignments=[replicas, *others])])
        assert made.error is None
    for number, each in enumerate((replicas, *others)):
        await lead(session, "t", each[0], epochs, *each, partition=number)
    between, host = Between(session), service_host()
    epoch = (await session.get(znodes.CONTROLLER_EPOCH)).version
    fenced = FencedSession(cast(Coordination, between), epoch)
    given = ControllerSettings(zookeeper=zookeeper, multi_bytes_max=MULTI_BYTES, **settings)
    term = Term(fenced, Endpoint(7, "localhost", 7_000), given, host, MemberKey(host.new_id))
    try:
        yield term, between
    finally:
        await term.recorder.close()
