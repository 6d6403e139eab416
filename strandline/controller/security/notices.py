"""Removes the notices of changes that every broker has read long ago."""

from __future__ import annotations

from functools import partial
from typing import Final

from strandline.adapters.zookeeper.security.acl_znodes import CHANGES
from strandline.adapters.zookeeper.security.notices import notice_names
from strandline.controller.term.fenced_session import FencedSession
from strandline.ports import Delete

NOTICES_MAX: Final = 1_000
"""With more notices, the oldest are removed. A broker that has not read them reads everything instead."""
NOTICES_KEPT: Final = 500


async def remove_old_notices(session: FencedSession) -> None:
    """Raises what the session raises."""
    names = await notice_names(session)
    if len(names) <= NOTICES_MAX:
        return
    for name in names[:-NOTICES_KEPT]:
        path = f"{CHANGES}/{name}"
        await session.write([Delete(path)], partial(session.is_absent, path))
