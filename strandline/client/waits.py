"""Waits that a user should see while they last: when they are logged, and by which logger."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from strandline.errors import StrandlineError
from strandline.ports import Clock

WAITS_LOGGER: Final = "strandline.client.waits"
"""The command line shows its lines."""

NOTICE_AFTER_S: Final = 2.0
"""Waits longer than this are logged; most are shorter."""
NOTICE_AGAIN_S: Final = 60.0
"""Time between two lines about one wait."""


class Notice:
    """When a wait that may be long is due to be logged: after NOTICE_AFTER_S, and each NOTICE_AGAIN_S."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: float | None = None
        self._asked_at = self._due_at = 0.0

    def lasting(self) -> float | None:
        """It goes on: for how many seconds by now, if that is to be logged. Without a call for twice
        NOTICE_AGAIN_S it was over."""
        now = self._clock.monotonic()
        if self._began is None or now - self._asked_at > 2 * NOTICE_AGAIN_S:
            self._began, self._due_at = now, now + NOTICE_AFTER_S
        self._asked_at = now
        if now < self._due_at:
            return None
        self._due_at = now + NOTICE_AGAIN_S
        return now - self._began

    def log(self, what: str, error: StrandlineError) -> bool:
        """It goes on, because of this error: True if that was logged now."""
        lasting = self.lasting()
        if lasting is not None:
            logging.getLogger(WAITS_LOGGER).warning("%s, for %.0f s by now: %s", what, lasting, error)
        return lasting is not None

    def over(self) -> None:
        """It has ended; the next call of `lasting` begins another one."""
        self._began = None


@contextmanager
def noticed(what: str, after_s: float = NOTICE_AFTER_S) -> Iterator[None]:
    """Wraps one wait of the event loop: logs it after `after_s`, and each NOTICE_AGAIN_S."""
    loop = asyncio.get_running_loop()
    began = loop.time()

    def say() -> None:
        logging.getLogger(WAITS_LOGGER).warning("%s, for %.0f s by now", what, loop.time() - began)
        timers.append(loop.call_later(NOTICE_AGAIN_S, say))

    timers = deque([loop.call_later(after_s, say)], maxlen=1)
    try:
        yield
    finally:
        timers.pop().cancel()
