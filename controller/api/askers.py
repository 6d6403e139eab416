"""Who asks for a call: its caller, or the one for whom a member of the cluster makes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from strandline.adapters.rpc.member_key import MemberKey
from strandline.controller.term.asked import doing_for
from strandline.ports import Caller, Served, ServedCall
from strandline.security.audit.entry import Source, source_of
from strandline.vocabulary.state_changes import AskedBy


def asker(caller: Caller, key: MemberKey) -> Source | None:
    """None: a member of the cluster asks for itself. What a call says of another caller counts if it shows
    the members' key."""
    return caller.asks_for if key.is_shown(caller.member_key) else source_of(caller)


def done_for_askers(served: Iterable[Served], key: MemberKey) -> list[Served]:
    """The same calls. What they do is done for those who ask: see `controller.term.asked`."""
    return [_done(each, key) if isinstance(each, ServedCall) else each for each in served]


def _done(served: ServedCall[Any, Any], key: MemberKey) -> Served:
    async def handle(request: Any, caller: Caller) -> Any:
        source = asker(caller, key)
        by = None if source is None else AskedBy(source.principal, source.address)
        with doing_for(by):
            return await served.handle(request, caller)

    return replace(served, handle=handle)
