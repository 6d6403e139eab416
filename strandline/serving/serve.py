"""One path around a call: guard, charge, audit, carry out.

A service has a row for each call, and a process one `Serving` for all of its rows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, NamedTuple

from strandline.adapters.rpc.serving import check_rows
from strandline.adapters.telemetry.audit import Audit
from strandline.errors import StrandlineError
from strandline.ports import Caller, Clock, Reply, Request, Response, Rpc, Served, ServedCall, ServedStream
from strandline.security.access import Access
from strandline.security.acls import CLUSTER_NAME
from strandline.security.audit.entry import Source, source_of
from strandline.security.calls import RPCS
from strandline.security.quotas.bill import ClientQuotas
from strandline.security.rights import ALTER_CLUSTER, Right
from strandline.security.rows import Decided
from strandline.serving.askers import Askers
from strandline.serving.carried_out import CarryOut
from strandline.serving.charging import charge_call
from strandline.serving.unfinished import unfinished_noted


class Change(NamedTuple):
    """One thing that a request changed, or may have changed."""

    right: Right
    name: str
    arguments: Mapping[str, Any]
    error: StrandlineError | None = None


@dataclass(frozen=True, slots=True)
class Allowed(Generic[Request, Response]):
    """What a caller may have of a request."""

    request: Request
    """With the entries that the caller may make."""
    whole: Callable[[Response], Response]
    """The answer to them, with the refusals of the others."""


@dataclass(frozen=True, slots=True)
class CallRow(Generic[Request, Response]):
    """The row of a call with one answer. Its right stands in `strandline.security.calls`."""

    rpc: Rpc[Request, Response]
    act: Callable[[Request, Caller], Awaitable[Response]]
    check: Callable[[Request, Caller], Allowed[Request, Response] | None] | None = None
    """Decides for each entry of a request; None: all of it. Raises StrandlineError to refuse all of it."""
    changes: Callable[[Request, Response], Iterable[Change]] | None = None
    """What a request and its answer changed. None: nothing, or the action notes it."""


Row = CallRow[Any, Any] | ServedStream[Any, Any]


@dataclass(frozen=True, slots=True)
class Serving:
    """What the calls of one process have in common."""

    access: Access
    audit: Audit
    clock: Clock
    quotas: ClientQuotas | None = None
    """None: the time of a call costs nothing."""
    askers: Askers | None = None
    """Of a process that is asked by members of the cluster for others. None: callers ask for themselves."""
    carry_out: CarryOut | None = None
    """None: a call ends if its caller hangs up."""

    def served(self, rows: Iterable[Row]) -> list[Served]:
        """The calls, for every listener of the process. Raises LookupError for one without rights."""
        found = [self._stream(row) if isinstance(row, ServedStream) else self._call(row) for row in rows]
        check_rows(found)
        return found

    def _call(self, call: CallRow[Any, Any]) -> Served:
        around = None if self.quotas is None else partial(charge_call, call.rpc.path, self.quotas, self.clock)
        return ServedCall(call.rpc, partial(serve, self, call), around)

    def _stream(self, stream: ServedStream[Any, Any]) -> Served:
        """The guard comes before each answer again. What the messages of a stream cost, it charges itself."""
        guarded = RPCS[stream.rpc.path].decided is Decided.BEFORE

        async def handle(requests: AsyncIterator[Any], reply: Reply[Any], caller: Caller) -> None:
            caller = self.known(caller, stream.rpc)

            async def reply_if_allowed(answer: Any) -> None:
                self.guard(caller, stream.rpc)
                await reply(answer)

            self.guard(caller, stream.rpc)
            await stream.handle(requests, reply_if_allowed if guarded else reply, caller)

        return replace(stream, handle=handle)

    def known(self, caller: Caller, rpc: Rpc[Any, Any]) -> Caller:
        """The caller with the name of its call, if there is an audit log, which meets it now."""
        if not self.audit.is_written:
            return caller
        self.audit.met(caller)
        return replace(caller, call=rpc.path.rpartition(".")[2].replace("/", "."))

    def guard(self, caller: Caller, rpc: Rpc[Any, Any]) -> None:
        """Raises ClusterAuthorizationFailed for a caller without the one right that the call needs."""
        row = RPCS[rpc.path]
        if row.decided is Decided.BEFORE:
            (right,) = row.rights
            self.access.check(caller, right)

    def for_asker(self, caller: Caller) -> AbstractContextManager[None]:
        """What is done within it is done for the one who asks."""
        return nullcontext() if self.askers is None else self.askers.doing_for(caller)

    def source(self, caller: Caller) -> Source:
        """The one who asks, as the audit log has it."""
        asked = None if self.askers is None else self.askers.source(caller)
        return asked or source_of(caller)

    def note_changes(self, caller: Caller, call: CallRow[Any, Any], request: Any, answer: Any) -> None:
        if call.changes is not None and self.audit.is_written:
            source = self.source(caller)
            for change in call.changes(request, answer):
                self.audit.changed(source, *change)

    def unfinished(self, caller: Caller, call: CallRow[Any, Any]) -> AbstractContextManager[None]:
        """Notes a change that is cut off within it."""
        if call.changes is None or not self.audit.is_written:
            return nullcontext()
        return unfinished_noted(
            partial(self.audit.changed, self.source(caller), ALTER_CLUSTER, CLUSTER_NAME, {})
        )


async def serve(serving: Serving, call: CallRow[Any, Any], request: Any, caller: Caller) -> Any:
    """The answer to one request. Raises StrandlineError to refuse it.

    The time is charged around it, from the bytes of the request to those of the answer: see `charge_call`.
    """
    caller = serving.known(caller, call.rpc)
    # Guard: the right that the call needs, and those to the entries of its request.
    serving.guard(caller, call.rpc)
    allowed = None if call.check is None else call.check(request, caller)

    async def work() -> Any:
        # Charge: changes count for the quotas of the one who asks. Audit: also a change without an end.
        with serving.for_asker(caller), serving.unfinished(caller, call):
            answer = await call.act(request if allowed is None else allowed.request, caller)
        if allowed is not None:
            answer = allowed.whole(answer)
        serving.note_changes(caller, call, request, answer)
        return answer

    # Carry out: to the end, though the caller hangs up.
    return await (work() if serving.carry_out is None else serving.carry_out(work))
