"""Writes notices about leadership to brokers' election queues, where they wait behind no request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import queue_znodes
from strandline.adapters.zookeeper.layout.queue_znodes import ElectionNotice
from strandline.controller.term.fenced_session import FencedSession
from strandline.ids import BrokerId
from strandline.ports import Create

NOTICES_PER_ZNODE_MAX: Final = 500


async def leave_notices(session: FencedSession, notices: Mapping[BrokerId, Sequence[ElectionNotice]]) -> None:
    """Writes each broker's notices, several in one znode. Raises as `FencedSession.write`."""
    for broker, theirs in sorted(notices.items()):
        for start in range(0, len(theirs), NOTICES_PER_ZNODE_MAX):
            data = queue_znodes.dump_notices(theirs[start : start + NOTICES_PER_ZNODE_MAX])
            notice = Create(znodes.election_notice_prefix(broker), data, sequential=True)
            await session.write([notice], _never)


async def _never() -> bool:
    """False: its reader may have removed the notice already, so its existence proves nothing. A second copy
    is harmless."""
    return False
