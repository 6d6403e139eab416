"""Reads one range of offsets as Arrow batches, for a task of Spark, which calls from a plain thread.

A Python worker is reused for several tasks, and so are its clients: a task that finds one need not connect.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from strandline.config.limits import KIB, MIB
from strandline.pipeline.columns.arrow import record_batches as arrow_batches
from strandline.pipeline.core.connection import Connection
from strandline.pipeline.core.options import INT64_MAX
from strandline.pipeline.core.pruning import EVERYTHING, Interval
from strandline.pipeline.core.ranges import OffsetRange
from strandline.pipeline.loop_thread import LoopThread, call, loop_thread
from strandline.pipeline.reading.ranges import RangeReader

logger = logging.getLogger(__name__)

FIRST_BYTES: Final = 512 * KIB
ARROW_BYTES: Final = 8 * MIB
"""The approximate size of a batch for Spark: each one costs a fixed time."""

_idle: WeakKeyDictionary[LoopThread, dict[tuple[Connection, str], list[RangeReader]]] = WeakKeyDictionary()
"""Idle readers by the cluster that they reach, and their isolation level. A forked process has another
loop."""


@dataclass(frozen=True, slots=True)
class Scan:
    """How to read ranges. `times_us` are the wanted timestamps, microseconds since 1970."""

    connection: Connection
    isolation: str
    include_headers: bool
    poll_timeout_s: float
    fail_on_data_loss: bool
    times_us: Interval = EVERYTHING


def record_batches(wanted: OffsetRange, scan: Scan) -> Iterator[pa.RecordBatch]:
    """The records of a range, in order. Raises DataLost, ReadStalled, and permanent refusals of a broker."""
    reader = call(_take(scan))
    sound = False
    try:
        call(reader.begin(wanted, timeout_s=scan.poll_timeout_s, fail_on_data_loss=scan.fail_on_data_loss))
        # Compressed data grows: the previous batch shows how much of it makes an Arrow batch.
        bytes_max = FIRST_BYTES
        while chunk := call(reader.next(bytes_max)):
            size = 0
            for found in arrow_batches(chunk, include_headers=scan.include_headers, stop=wanted.end):
                size += found.nbytes
                if scan.times_us != EVERYTHING:
                    found = _within(found, scan.times_us)
                if found.num_rows:
                    yield found
            bytes_max = ARROW_BYTES * sum(batch.size for batch in chunk) // max(1, size)
        sound = True
    finally:
        call(_give_back(scan, reader, sound=sound))


def _within(found: pa.RecordBatch, times_us: Interval) -> pa.RecordBatch:
    """The records with these timestamps."""
    for bound, fits in ((times_us.least, pc.greater_equal), (times_us.most, pc.less_equal)):
        if bound is not None:
            moment = pa.scalar(min(max(bound, -INT64_MAX), INT64_MAX), pa.int64())
            found = found.filter(fits(found.column("timestamp").cast(pa.int64()), moment))
    return found


async def _take(scan: Scan) -> RangeReader:
    """An unused reader."""
    connection = scan.connection
    idle = _idle.setdefault(loop_thread(), {}).get((connection, scan.isolation))
    if idle:
        return idle.pop()
    reader = RangeReader(connection.bootstrap, isolation_level=scan.isolation, **connection.settings)
    await reader.start()
    return reader


async def _give_back(scan: Scan, reader: RangeReader, *, sound: bool) -> None:
    """Keep the reader for the next task, unless it failed or was not read to its end."""
    if sound:
        _idle[loop_thread()].setdefault((scan.connection, scan.isolation), []).append(reader)
        return
    try:
        await reader.stop()
    except Exception as error:  # the error that ended the task was already raised
        logger.info("the reader of a task that did not end well: %s", error)
