"""Leaving notices in brokers' election queues: a word about leadership, which waits behind no request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from strandline.adapters.zookeeper import queue_znodes, znodes
from strandline.adapters.zookeeper.queue_znodes import ElectionNotice
from strandline.controller.term.fenced_session import FencedSession
from strandline.ids import BrokerId
from strandline.ports import Create

NOTICES_PER_ZNODE_MAX: Final = 500


async def leave_notices(session: FencedSession, notices: Mapping[BrokerId, Sequence[ElectionNotice]]) -> None:
    """For each broker, one znode for so many. Raises as `FencedSession.write`."""
    for broker, theirs in sorted(notices.items()):
        for start in range(0, len(theirs), NOTICES_PER_ZNODE_MAX):
            data = queue_znodes.dump_notices(theirs[start : start + NOTICES_PER_ZNODE_MAX])
            notice = Create(znodes.election_notice_prefix(broker), data, sequential=True)
            await session.write([notice], _never)


async def _never() -> bool:
    """Nobody can tell whether a notice was left that its reader may have taken already; leaving it twice
    changes nothing."""
    return False
