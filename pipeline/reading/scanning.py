"""What a task does: one range of offsets as Arrow batches, for Spark, which asks from a plain thread.

A Python worker lives on from one task to the next, and so do its clients: a task that finds one does not
have to connect.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from strandline.config import KIB, MIB
from strandline.consumer.records import FetchedBatch
from strandline.pipeline.columns.arrow import record_batch
from strandline.pipeline.core.options import INT64_MAX
from strandline.pipeline.core.pruning import EVERYTHING, Interval
from strandline.pipeline.core.ranges import OffsetRange
from strandline.pipeline.loop_thread import LoopThread, call, loop_thread
from strandline.pipeline.reading.ranges import RangeReader

logger = logging.getLogger(__name__)

FIRST_BYTES: Final = 512 * KIB
ARROW_BYTES: Final = 8 * MIB
"""About what Spark is given at once: each batch costs a fixed time."""

_idle: WeakKeyDictionary[LoopThread, dict[str, list[RangeReader]]] = WeakKeyDictionary()
"""Readers that wait for a task, by where brokers are. A process that was forked has another loop."""


@dataclass(frozen=True, slots=True)
class Scan:
    """How ranges are read. `times_us` are the timestamps wanted, microseconds since 1970."""

    bootstrap: str
    include_headers: bool
    poll_timeout_s: float
    fail_on_data_loss: bool
    times_us: Interval = EVERYTHING


def record_batches(wanted: OffsetRange, scan: Scan) -> Iterator[pa.RecordBatch]:
    """The records of a range, in order. Raises DataLost, ReadStalled, and what a broker refuses for good."""
    reader = call(_take(scan.bootstrap))
    sound = False
    try:
        call(reader.begin(wanted, timeout_s=scan.poll_timeout_s, fail_on_data_loss=scan.fail_on_data_loss))
        # What is compressed grows: how much of it makes a batch is seen from the batch before.
        bytes_max = FIRST_BYTES
        while chunk := call(reader.next(bytes_max)):
            size = 0
            for found in _converted(chunk, wanted, scan):
                size += found.nbytes
                if scan.times_us != EVERYTHING:
                    found = _within(found, scan.times_us)
                if found.num_rows:
                    yield found
            bytes_max = ARROW_BYTES * sum(batch.size for batch in chunk) // max(1, size)
        sound = True
    finally:
        call(_give_back(scan.bootstrap, reader, sound=sound))


def _converted(chunk: Sequence[FetchedBatch], wanted: OffsetRange, scan: Scan) -> Iterator[pa.RecordBatch]:
    """One Arrow batch, or more where that would be too large.

    Raises UndecodableBatch.
    """
    try:
        whole = record_batch(chunk, include_headers=scan.include_headers, stop=wanted.end)
    except ValueError:  # together they hold more than an Arrow batch can
        if len(chunk) == 1:
            raise
        half = len(chunk) // 2
        yield from _converted(chunk[:half], wanted, scan)
        yield from _converted(chunk[half:], wanted, scan)
    else:
        yield whole


def _within(found: pa.RecordBatch, times_us: Interval) -> pa.RecordBatch:
    """The records of these times."""
    for bound, fits in ((times_us.least, pc.greater_equal), (times_us.most, pc.less_equal)):
        if bound is not None:
            moment = pa.scalar(min(max(bound, -INT64_MAX), INT64_MAX), pa.int64())
            found = found.filter(fits(found.column("timestamp").cast(pa.int64()), moment))
    return found


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
    except Exception as error:  # what made it fail was raised to the task already
        logger.info("the reader of a task that did not end well: %s", error)
