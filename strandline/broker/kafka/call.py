"""One request as its handler sees it, and the table entry of one API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from strandline.broker.kafka.connection_login import ConnectionLogin
from strandline.broker.kafka.wire.apis import ApiWire
from strandline.broker.kafka.wire.header import RequestHeader
from strandline.ports import Caller, Reply
from strandline.security.quotas.bill import Bill
from strandline.security.quotas.model import Quota

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Call:
    """Who asks, in which version."""

    header: RequestHeader
    caller: Caller
    login: ConnectionLogin | None = None
    """The login of the connection; None on a port without logins."""
    bill: Bill | None = None
    """What the request costs the client; None: it has no quota to keep."""
    begun: Callable[[], None] = lambda: None
    """For `Handle`, of an API that has `Begin`: the request has its place, so those behind it may begin."""

    @property
    def version(self) -> int:
        return self.header.version


Handle = Callable[[Request, Call, Reply[Answer]], Awaitable[None]]
"""Answers one request by calling the reply at most once. The reply returns once the connection has taken the
answer. Without a call, the request gets no answer."""

Begin = Callable[[Request, Call, Callable[[Answer], None]], bool]
"""Begins a request without waiting, and calls the function with the answer later, once. Returns False, and
does nothing, if that is impossible: then the request needs `Handle`."""


Wait = Callable[[Request, Call, Callable[[Answer | None], None]], Callable[[], None] | None]
"""Waits for what a request asks for, without a task. Later it calls the function once: with the answer, or
with None if `Handle` has to make it now. Returns the function that ends the wait early, or None if there is
nothing to wait for in this way: then `Handle` begins at once."""


@dataclass(frozen=True, slots=True)
class Api(Generic[Request, Answer]):
    """One API as it is served."""

    wire: ApiWire[Request, Answer]
    handle: Handle[Request, Answer]
    begin: Begin[Request, Answer] | None = None
    """Of an API whose requests may be in progress at the same time on one connection."""
    wait: Wait[Request, Answer] | None = None
    """Of an API whose requests mostly wait, and keep nothing of their frames meanwhile."""
    paid_before: tuple[Quota, ...] = ()
    """A request begins once the client owes nothing of these quotas, on whichever connection it used them,
    and nothing of its share of the broker's time."""
    urgent: bool = False
    """True if its requests begin although the client waits for its quota: a member must not lose its
    group for that."""
    changes: bool = False
    """True if a request that arrived is carried out, even if its connection ends before the answer. A client
    may leave its group, or commit, and hang up. Only of requests that the broker, and not the client, gives
    their time: one that waits as long as its client likes has to end with its connection."""


def answered(handle: Callable[[Request, Call], Awaitable[Answer]]) -> Handle[Request, Answer]:
    """For a handler that returns its answer."""

    async def reply_with_result(request: Request, call: Call, reply: Reply[Answer]) -> None:
        await reply(await handle(request, call))

    return reply_with_result
