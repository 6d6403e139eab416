"""Retries calls that may succeed later."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import TypeVar

from strandline.client.backoff import backoff_s
from strandline.client.waits import Notice
from strandline.config.client import ClientSettings
from strandline.errors import StrandlineError
from strandline.ports import Clock

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Tries:
    """Counts failed tries, pauses after each, and limits their time.

    Pauses double from `retry_backoff_ms` to `retry_backoff_ms_max`; `limit_s` counts from now on.
    """

    def __init__(self, settings: ClientSettings, clock: Clock, limit_s: float = float("inf")) -> None:
        self._settings = settings
        self._clock = clock
        self._ends_at = clock.monotonic() + limit_s
        self.failed = 0
        """Pauses since the start, or since the last `reset`."""
        self._notice = Notice(clock)

    @property
    def over(self) -> bool:
        return self._clock.monotonic() >= self._ends_at

    def reset(self) -> None:
        """A try has succeeded: begin with the shortest pause again."""
        self.failed = 0
        self._notice.over()

    async def pause(self) -> None:
        """Wait before the next try."""
        self.failed += 1
        await self._clock.sleep(backoff_s(self._settings, self.failed))

    def log(self, log: logging.Logger, what: str, error: StrandlineError, level: int = logging.INFO) -> None:
        """Log the error of a try: the first one in a row at `level`, the others at DEBUG. If they fail for
        NOTICE_AFTER_S, and each NOTICE_AGAIN_S from then on, warn that `what` lasts."""
        if not self._notice.log(what, error):
            log.log(logging.DEBUG if self.failed else level, "%s: %s", what, error)


async def retry(
    ask: Callable[[], Awaitable[T]],
    what: str,
    *,
    settings: ClientSettings,
    clock: Clock,
    limit_s: float = float("inf"),
    tries_max: int | None = None,
    retriable: Callable[[StrandlineError], bool] = attrgetter("retriable"),
    on_retry: Callable[[StrandlineError], object] | None = None,
    level: int = logging.INFO,
) -> T:
    """The result of `ask`, which is called again after a pause while it raises a `retriable` error.

    Raises an error that is not retriable at once, and the last one after `tries_max` calls or `limit_s`
    seconds. `on_retry` gets each error that another call follows; `what` is logged with it, the first time at
    `level`.
    """
    tries = Tries(settings, clock, limit_s)
    while True:
        try:
            return await ask()
        except StrandlineError as error:
            if not retriable(error) or tries.over or tries.failed + 1 == tries_max:
                raise
            tries.log(logger, what, error, level)
            if on_retry is not None:
                on_retry(error)
        await tries.pause()
