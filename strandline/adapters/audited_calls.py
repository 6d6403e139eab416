"""Has the audit log know the calls of a gRPC listener: their names, and their connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from typing import Any

from strandline.adapters.rpc.server.held_calls import host_of
from strandline.adapters.telemetry.audit import Audit
from strandline.config.security import SSL
from strandline.errors import StrandlineError
from strandline.ports import Caller, Reply, Served, ServedCall, ServedStream
from strandline.security.login.steps import LoginRefused, Why


def audited(served: Iterable[Served], audit: Audit) -> list[Served]:
    """The same calls. Their callers have the name of the call, if there is an audit log."""
    return [_audited(each, audit) if audit.is_written else each for each in served]


def _audited(served: Served, audit: Audit) -> Served:
    name = served.rpc.path.rpartition(".")[2].replace("/", ".")
    if isinstance(served, ServedCall):
        return _call(served, audit, name)
    return _stream(served, audit, name)


def _call(served: ServedCall[Any, Any], audit: Audit, name: str) -> Served:
    async def handle(request: Any, caller: Caller) -> Any:
        audit.met(caller)
        return await served.handle(request, replace(caller, call=name))

    return replace(served, handle=handle)


def _stream(served: ServedStream[Any, Any], audit: Audit, name: str) -> Served:
    async def handle(requests: AsyncIterator[Any], reply: Reply[Any], caller: Caller) -> None:
        audit.met(caller)
        await served.handle(requests, reply, replace(caller, call=name))

    return replace(served, handle=handle)


def refusals_noted(
    then: Callable[[StrandlineError, str], None], audit: Audit
) -> Callable[[StrandlineError, str], None]:
    """For `strandline.host.Listen`: notes callers whose certificates give no principal, and calls `then`."""

    def note(error: StrandlineError, peer: str) -> None:
        then(error, peer)
        if isinstance(error, LoginRefused) and error.why is Why.CERTIFICATE:
            audit.login_refused(Caller(peer, host_of(peer)), SSL, error)

    return note
