"""Reads the log of one coordinator's partition into its core, from its start to its end at the election."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from strandline.broker.coordinators.kind import Kind
from strandline.broker.replicas.leadership import STORAGE_RETRY_S, Leadership
from strandline.config.limits import KIB
from strandline.errors import CorruptMessage, StorageBusy, StrandlineError, UnsupportedCompression
from strandline.ports import Clock
from strandline.records import BatchHeader, Record, decode_batch, iterate
from strandline.records.control import decode_marker

logger = structlog.get_logger(__name__)

LOAD_BYTES_AT_ONCE: Final = 64 * KIB
LOAD_RECORDS_AT_ONCE: Final = 500
"""After this many records other work of the broker has its turn."""
LOADING_NOTICE_S: Final = 3.0
"""A wait for in-sync replicas that lasts longer is logged, and again each LOADING_NOTICE_AGAIN_S."""
LOADING_NOTICE_AGAIN_S: Final = 60.0
UNREADABLE_LOGGED_MAX: Final = 20
"""Log lines about unreadable records in one load; the line at its end has their number."""


class Loads(Protocol):
    def replay(self, record: Record, producer_id: int | None) -> None:
        """Replays one record of the log, in the log's order. `producer_id`: of its transaction, if it is part
        of one. Raises a StrandlineError, without any change, for a record that no coordinator writes."""

    def transaction_ended(self, producer_id: int, *, commit: bool) -> None:
        """The producer's marker is next in the log."""


@dataclass(slots=True)
class Loading:
    """`run` reads, until `ended`; `wake` is set when that becomes true."""

    leadership: Leadership
    into: Loads
    kind: Kind
    clock: Clock
    ended: Callable[[], bool]
    wake: asyncio.Event
    _records: int = field(default=0, init=False)
    _unreadable: int = field(default=0, init=False)

    async def run(self) -> None:
        """Replays the log up to its end at the election, once all of that is committed (H1)."""
        await self._wait_for_watermark()
        began = self.clock.monotonic()
        log = self.leadership.replica.log
        offset, end = log.log_start_offset, self.leadership.core.epoch_start
        while (offset := max(offset, log.log_start_offset)) < end and not self.ended():
            try:
                data, next_offset = log.read_range(offset, LOAD_BYTES_AT_ONCE, below=end)
            except StorageBusy:
                await self.clock.sleep(STORAGE_RETRY_S)
                continue
            for header in iterate(data):
                await self._replay(self._readable(data, header), header, from_offset=offset)
                if self.ended():
                    return
            assert next_offset > offset, f"{log!r} has nothing to read at {offset} below {end}"
            offset = next_offset
        if not self.ended():
            logger.info(
                self.kind.lines.loaded,
                partition=self.leadership.replica.name.partition,
                epoch=self.leadership.epoch,
                records=self._records,
                unreadable=self._unreadable,
                seconds=round(self.clock.monotonic() - began, 3),
            )

    async def _wait_for_watermark(self) -> None:
        """Clients hear meanwhile that the coordinator is loading: they wait, too."""
        replica, core, began = self.leadership.replica, self.leadership.core, self.clock.monotonic()
        notice_s = LOADING_NOTICE_S
        replica.listen(self.wake.set)
        try:
            while not self.ended() and not core.knows_watermark:
                self.wake.clear()
                left_s = notice_s - (self.clock.monotonic() - began)
                try:
                    async with asyncio.timeout(max(0.0, left_s)):
                        await self.wake.wait()
                except TimeoutError:
                    notice_s += LOADING_NOTICE_AGAIN_S
                    logger.warning(
                        self.kind.lines.waiting,
                        partition=replica.name.partition,
                        seconds=round(self.clock.monotonic() - began),
                        isr=sorted(core.isr.maximal()),
                        min_insync=core.min_insync,
                    )
        finally:
            replica.unlisten(self.wake.set)

    def _readable(self, data: bytes, header: BatchHeader) -> list[Record]:
        try:
            if header.is_control:
                marker = decode_marker(data, header)
                if marker is not None:
                    self.into.transaction_ended(header.producer_id, commit=marker.commit)
                return []
            return decode_batch(data, header)
        except (CorruptMessage, UnsupportedCompression) as error:
            self._report_unreadable(header.base_offset, error)
            return []

    async def _replay(self, records: list[Record], header: BatchHeader, *, from_offset: int) -> None:
        producer_id = header.producer_id if header.is_transactional else None
        for record in records:
            if self.ended():
                return
            if record.offset >= from_offset:
                try:
                    self.into.replay(record, producer_id)
                except StrandlineError as error:
                    self._report_unreadable(record.offset, error)
            self._records += 1
            if self._records % LOAD_RECORDS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _report_unreadable(self, offset: int, error: StrandlineError) -> None:
        """The record is skipped: one unreadable record must not block all other keys."""
        self._unreadable += 1
        if self._unreadable <= UNREADABLE_LOGGED_MAX:
            logger.error(
                self.kind.lines.unreadable,
                partition=self.leadership.replica.name.partition,
                offset=offset,
                reason=error.message,
                exc_info=error.__cause__,
            )
