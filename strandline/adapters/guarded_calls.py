"""Decides before a call's handler runs, for calls whose row says so; no call is served without a row."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any, Final

from strandline.ports import Caller, Reply, Served, ServedCall, ServedStream
from strandline.security.access import Access
from strandline.security.rights import Right
from strandline.security.rows import Decided
from strandline.security.rpcs import RPCS

_OWN: Final = "/strandline."
"""Paths of strandline's services begin with it; tests serve others."""


def check_rows(served: Iterable[Served]) -> None:
    """Raises LookupError for a call that has no row: it would be open to every caller."""
    for each in served:
        if each.rpc.path.startswith(_OWN) and each.rpc.path not in RPCS:
            raise LookupError(f"{each.rpc.path} has no row in strandline/security/rpcs.py: who may call it?")


def guarded(served: Iterable[Served], access: Access) -> list[Served]:
    """The same calls. Those with a right in their row ask for it first, and streams before each answer."""
    calls = list(served)
    check_rows(calls)
    return [_guarded(each, access) for each in calls]


def _guarded(served: Served, access: Access) -> Served:
    row = RPCS[served.rpc.path]
    if row.decided is not Decided.BEFORE:
        return served
    (right,) = row.rights
    if isinstance(served, ServedCall):
        return _call(served, access, right)
    return _stream(served, access, right)


def _call(served: ServedCall[Any, Any], access: Access, right: Right) -> Served:
    async def handle(request: Any, caller: Caller) -> Any:
        access.check(caller, right)
        return await served.handle(request, caller)

    return replace(served, handle=handle)


def _stream(served: ServedStream[Any, Any], access: Access, right: Right) -> Served:
    async def handle(requests: AsyncIterator[Any], reply: Reply[Any], caller: Caller) -> None:
        async def reply_if_allowed(answer: Any) -> None:
            access.check(caller, right)
            await reply(answer)

        access.check(caller, right)
        await served.handle(requests, reply_if_allowed, caller)

    return replace(served, handle=handle)
