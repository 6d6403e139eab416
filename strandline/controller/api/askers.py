"""Who asks for a call: its caller, or the one for whom a member of the cluster makes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from strandline.adapters.rpc.member_key import MemberKey
from strandline.controller.term.asked import doing_for
from strandline.ports import Caller, Served, ServedCall
from strandline.security.audit.entry import Source, shortened, source_of
from strandline.security.principal import USER, Principal
from strandline.security.quotas.bill import Bill, ClientQuotas
from strandline.vocabulary.state_changes import AskedBy


def asker(caller: Caller, key: MemberKey) -> Source | None:
    """None: a member of the cluster asks for itself. What a call says of another caller counts if it shows
    the members' key."""
    if not key.is_shown(caller.member_key):
        return source_of(caller)
    return None if caller.asks_for is None else shortened(caller.asks_for)


def bill_of(caller: Caller, key: MemberKey, quotas: ClientQuotas) -> Bill | None:
    """The bill of the one who asks. None: it has no quota to keep, as members of the cluster have none."""
    if not key.is_shown(caller.member_key):
        return quotas.of(caller)
    source = caller.asks_for
    if source is None:
        return None
    principal = Principal(source.principal.removeprefix(f"{USER}:"))
    return quotas.of(replace(caller, principal=principal, member_key=None, client_id=source.client_id))


def done_for_askers(served: Iterable[Served], key: MemberKey, quotas: ClientQuotas) -> list[Served]:
    """The same calls. What they do is done for those who ask, and counts for their quotas: see
    `controller.term.asked`."""
    return [_done(each, key, quotas) if isinstance(each, ServedCall) else each for each in served]


def _done(served: ServedCall[Any, Any], key: MemberKey, quotas: ClientQuotas) -> Served:
    async def handle(request: Any, caller: Caller) -> Any:
        source = asker(caller, key)
        by = None if source is None else AskedBy(source.principal, source.address)
        with doing_for(by, bill_of(caller, key, quotas)):
            return await served.handle(request, caller)

    return replace(served, handle=handle)
