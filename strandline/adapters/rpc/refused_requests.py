"""Counts and logs malformed requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import structlog

from strandline.adapters.rpc.request_parsing import MalformedRequest
from strandline.adapters.telemetry.metrics import Sample, counter
from strandline.errors import StrandlineError
from strandline.ports import Clock

logger = structlog.get_logger(__name__)

LOGGED_EVERY_S: Final = 60.0

MALFORMED: Final = counter(
    "strandline_malformed_requests_total",
    "Requests of each kind that could not be parsed, or had more elements than one may have.",
    "request",
)


class RefusedRequests:
    """The malformed requests of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: Counter[str] = Counter()
        self._logged: dict[str, float] = {}

    def note(self, error: StrandlineError, peer: str) -> None:
        """Count a malformed request, and log it unless one of its kind was logged within LOGGED_EVERY_S."""
        if not isinstance(error, MalformedRequest):
            return
        self._counts[error.kind] += 1
        now = self._clock.monotonic()
        if now - self._logged.get(error.kind, -LOGGED_EVERY_S) >= LOGGED_EVERY_S:
            self._logged[error.kind] = now
            logger.warning(
                "malformed request",
                request=error.kind,
                peer=peer,
                reason=error.message,
                so_far=self._counts[error.kind],
            )

    def read(self) -> Sequence[Sample]:
        return [MALFORMED.is_now(count, kind) for kind, count in self._counts.items()]
