"""Logs why there is no encrypted connection to a server, at most once a minute for each reason."""

from __future__ import annotations

from typing import Final

import structlog

from strandline.ports import Clock

logger = structlog.get_logger(__name__)

LOGGED_EVERY_S: Final = 60.0


class RefusalLog:
    """The log of one session."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logged: dict[str, tuple[str, float]] = {}
        """For each server, the last reason and when it was logged."""

    def report(self, server: str, reason: str) -> None:
        now = self._clock.monotonic()
        last_reason, logged_at = self._logged.get(server, ("", 0.0))
        if reason == last_reason and now < logged_at + LOGGED_EVERY_S:
            return
        self._logged[server] = (reason, now)
        logger.error("no encrypted connection to ZooKeeper", server=server, reason=f"the server {reason}")
