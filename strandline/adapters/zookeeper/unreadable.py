"""Logs each unreadable znode once, however often it is read."""

from __future__ import annotations

from typing import Final

import structlog

from strandline.adapters.zookeeper.znodes import UnreadableZnode

logger = structlog.get_logger(__name__)

REMEMBERED_MAX: Final = 1_000
"""Messages that are not repeated. When there are more, all may be repeated once."""


class UnreadableLog:
    """The log of one reader. A znode that changes and is still unreadable is reported again."""

    def __init__(self) -> None:
        self._reported: set[str] = set()

    def report(self, error: UnreadableZnode) -> None:
        if error.message in self._reported:
            return
        if len(self._reported) >= REMEMBERED_MAX:
            self._reported.clear()
        self._reported.add(error.message)
        logger.error("unreadable znode: passed over until it is mended", reason=error.message)
