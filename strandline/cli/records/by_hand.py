"""A group member that works as many applications do: record by record, with timeouts, and own commits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from strandline.adapters.system.clock import SystemClock
from strandline.cli.records.consume import Limits
from strandline.errors import StrandlineError, UnknownMemberId

if TYPE_CHECKING:
    from strandline import Consumer, ConsumerRecord

ASK_S: Final = 0.5
"""Time that one get call may take."""
BLOCK_EVERY_S: Final = 5.0
COMMIT_EVERY: Final = 5
"""Records between two commits. The rest is committed when there is nothing to read, and at the end."""


class ByHand:
    """Reads by `asyncio.wait_for(getone())`, commits after some of the records, and sometimes blocks the
    event loop for `block_s` seconds while it handles a record."""

    def __init__(self, consumer: Consumer, note: Callable[..., None], block_s: float | None) -> None:
        self._consumer = consumer
        self._note = note
        self._block_s = block_s
        self._clock = SystemClock()
        self._blocked_at = float("-inf")

    async def read_until(
        self,
        received: Callable[[Sequence[ConsumerRecord]], None],
        limits: Limits,
        between: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Reads until a limit is reached. Awaits `between` before each get call."""
        uncommitted = 0
        while not limits.reached:
            if between is not None:
                await between()
            try:
                record = await asyncio.wait_for(self._consumer.getone(), ASK_S)
            except TimeoutError:
                if uncommitted and await self._commit():
                    uncommitted = 0
                continue
            except StrandlineError as error:
                if not error.retriable or self._consumer.error() is not None:
                    raise
                continue
            received([record])
            limits.note(1)
            self._block()
            await asyncio.sleep(0)
            self._report("handled", record, record.offset)
            uncommitted += 1
            if uncommitted >= COMMIT_EVERY and await self._commit():
                uncommitted = 0
                self._report("commit_acked", record, record.offset + 1)
        if uncommitted:
            _ = await self._commit()

    def _report(self, event: str, record: ConsumerRecord, offset: int) -> None:
        self._note(event, topic=record.topic, partition=record.partition, offset=offset)

    def _block(self) -> None:
        if self._block_s is None or self._clock.monotonic() - self._blocked_at < BLOCK_EVERY_S:
            return
        _ = threading.Event().wait(self._block_s)
        self._blocked_at = self._clock.monotonic()

    async def _commit(self) -> bool:
        """Commits. Returns True if all records handed out since the last get call are committed. Records of
        lost partitions are read again by their new owner; offsets that cannot be committed now go with the
        next commit."""
        try:
            await self._consumer.commit()
        except UnknownMemberId:
            return False
        except StrandlineError as error:
            if not error.retriable:
                raise
            return False
        return True
