"""Writes what admin requests change to the audit log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.telemetry.audit import Audit
from strandline.adapters.unfinished_changes import unfinished_noted
from strandline.controller.api.askers import asker
from strandline.controller.api.changes import CHANGES, changes
from strandline.ports import Caller, Served, ServedCall
from strandline.security.acls import CLUSTER_NAME
from strandline.security.audit.entry import source_of
from strandline.security.rights import ALTER_CLUSTER


def changes_written(served: Iterable[Served], key: MemberKey, audit: Audit) -> list[Served]:
    """The same calls. Those that change something are written to the audit log, if there is one."""
    if not audit.is_written:
        return list(served)
    return [
        _written(each, key, audit) if isinstance(each, ServedCall) and each.rpc.path in CHANGES else each
        for each in served
    ]


def _written(served: ServedCall[Any, Any], key: MemberKey, audit: Audit) -> Served:
    path = served.rpc.path

    async def handle(request: Any, caller: Caller) -> Any:
        source = asker(caller, key) or source_of(caller)
        with unfinished_noted(partial(audit.changed, source, ALTER_CLUSTER, CLUSTER_NAME, {})):
            answer = await served.handle(request, caller)
        for change in changes(path, request, answer):
            audit.changed(source, *change)
        return answer

    return replace(served, handle=handle)
