"""Says of each unreadable znode once that it is, however often it is read."""

from __future__ import annotations

from typing import Final

import structlog

from strandline.adapters.zookeeper.znodes import UnreadableZnode

logger = structlog.get_logger(__name__)

REMEMBERED_MAX: Final = 1_000
"""Messages that are not repeated. When there are more, all may be repeated once."""


class UnreadableLog:
    """One reader's. A znode that changes and is unreadable still is reported again."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def report(self, error: UnreadableZnode) -> None:
        if error.message in self._said:
            return
        if len(self._said) >= REMEMBERED_MAX:
            self._said.clear()
        self._said.add(error.message)
        logger.error("unreadable znode: passed over until it is mended", reason=error.message)
