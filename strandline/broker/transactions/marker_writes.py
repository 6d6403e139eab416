"""The leader's side of markers: appends those that coordinators send, and answers once they are committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final, Protocol

from strandline.errors import StrandlineError
from strandline.ports import Caller, Clock
from strandline.security.access import Access
from strandline.tasks import in_slices
from strandline.vocabulary.transactions import MarkerBatch, MarkerEntry

MARKER_APPEND_MS: Final = 2_000
"""How long a marker may wait for the high watermark. Then the coordinator sends it again."""
MARKER_CALL_S: Final = MARKER_APPEND_MS / 1000 + 1
"""The time for a call with markers, whose leader answers within MARKER_APPEND_MS."""

Outcome = asyncio.Future[StrandlineError | None]
"""The error, or None once the marker is committed."""


class MarkerWriter(Protocol):
    """The logs that this broker leads."""

    def write(
        self, entry: MarkerEntry, done: Callable[[StrandlineError | None], None], *, timeout_ms: int
    ) -> None:
        """Appends the marker. `done` is called once, now or later: with None once the marker is below the
        high watermark, or with the error. The same marker again is no second end of the transaction: it is
        answered once it is below the high watermark as well."""


class MarkerWrites:
    """Writes markers of coordinators here and elsewhere."""

    def __init__(self, writer: MarkerWriter, access: Access, clock: Clock) -> None:
        self._writer = writer
        self._access = access
        self._clock = clock

    def begin(self, entry: MarkerEntry) -> Outcome:
        """Writes one marker."""
        outcome: Outcome = asyncio.get_running_loop().create_future()
        self._writer.write(entry, partial(_deliver, outcome), timeout_ms=MARKER_APPEND_MS)
        return outcome

    async def write(self, batch: MarkerBatch, caller: Caller) -> Sequence[StrandlineError | None]:
        """Raises as `Access.check_broker`: only the broker that it names sends a coordinator's markers."""
        self._access.check_broker(caller, batch.broker_id)
        outcomes = await in_slices(self.begin, batch.entries, self._clock)
        await settle(outcomes)
        return [outcome.result() for outcome in outcomes]


def _deliver(outcome: Outcome, error: StrandlineError | None) -> None:
    if not outcome.done():
        outcome.set_result(error)


async def settle(outcomes: Collection[asyncio.Future[Any]]) -> None:
    """Waits for all of them. If the waiting is cancelled, so are they: what they would say is dropped."""
    try:
        if outcomes:
            await asyncio.wait(outcomes)
    finally:
        for outcome in outcomes:
            outcome.cancel()
