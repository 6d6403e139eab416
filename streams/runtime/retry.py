"""Retries operations that may succeed later, because brokers fail and return."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar

from strandline.client.backoff import backoff_s
from strandline.config import ClientSettings
from strandline.errors import StrandlineError
from strandline.ports import Clock

logger = logging.getLogger(__name__)

T = TypeVar("T")


async def retry(
    ask: Callable[[], Awaitable[T]],
    what: str,
    *,
    settings: ClientSettings,
    clock: Clock,
    errors: type[StrandlineError] = StrandlineError,
    limit_s: float = float("inf"),
) -> T:
    """The result of `ask`. Retriable errors among `errors` are retried until `limit_s` has passed."""
    give_up_at = clock.monotonic() + limit_s
    for attempt in count(1):
        try:
            return await ask()
        except errors as error:
            if not error.retriable or clock.monotonic() >= give_up_at:
                raise
            logger.info("%s waits: %s", what, error)
        await clock.sleep(backoff_s(settings, attempt))
    raise AssertionError("counting ended")
