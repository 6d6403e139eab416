"""What a task does: one range of offsets as Arrow batches, for Spark, which asks from a plain thread.

A Python worker lives on from one task to the next, and so do its clients: a task that finds one does not
have to connect.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from pipeline.arrow import record_batch
from pipeline.core.ranges import OffsetRange
from pipeline.loop_thread import LoopThread, call, loop_thread
from pipeline.reading import RangeReader
from strandline.errors import StrandlineError

logger = logging.getLogger(__name__)

_idle: WeakKeyDictionary[LoopThread, dict[str, list[RangeReader]]] = WeakKeyDictionary()
"""Readers that wait for a task, by where brokers are. A process that was forked has another loop."""


@dataclass(frozen=True, slots=True)
class Scan:
    """How ranges are read. `times_us` bounds the timestamps, both included, microseconds since 1970."""

    bootstrap: str
    include_headers: bool
    poll_timeout_s: float
    fail_on_data_loss: bool
    times_us: tuple[int | None, int | None] = (None, None)


def record_batches(wanted: OffsetRange, scan: Scan) -> Iterator[pa.RecordBatch]:
    """The records of a range, in order. Raises DataLost, ReadStalled, and what a broker refuses for good."""
    reader = call(_take(scan.bootstrap))
    sound = False
    try:
        call(reader.begin(wanted, timeout_s=scan.poll_timeout_s, fail_on_data_loss=scan.fail_on_data_loss))
        while chunk := call(reader.next()):
            found = _before(wanted.end, record_batch(chunk, include_headers=scan.include_headers))
            if found.num_rows:
                yield found
        sound = True
    finally:
        call(_give_back(scan.bootstrap, reader, sound=sound))


def _before(end: int, found: pa.RecordBatch) -> pa.RecordBatch:
    """The rows below an offset: the last batch of the log may go on behind the range."""
    offsets = found.column("offset").to_numpy()
    if not len(offsets) or offsets[-1] < end:
        return found
    return found.slice(0, int(np.searchsorted(offsets, end)))


async def _take(bootstrap: str) -> RangeReader:
    """One that nobody else uses."""
    idle = _idle.setdefault(loop_thread(), {}).get(bootstrap)
    if idle:
        return idle.pop()
    reader = RangeReader(bootstrap)
    await reader.start()
    return reader


async def _give_back(bootstrap: str, reader: RangeReader, *, sound: bool) -> None:
    """Keep it for the next task, unless it failed, or was left in the middle."""
    if sound:
        _idle[loop_thread()].setdefault(bootstrap, []).append(reader)
        return
    try:
        await reader.stop()
    except StrandlineError as error:
        logger.info("a reader that failed: %s", error)
