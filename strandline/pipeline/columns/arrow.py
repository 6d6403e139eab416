"""Converts batches of the log to Arrow columns, without a Python object for each record where their layout
allows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from strandline.client.reading.records import FetchedBatch
from strandline.config.limits import MIB
from strandline.errors import CorruptMessage, StrandlineError
from strandline.ids import TopicPartition
from strandline.pipeline.columns.record_fields import (
    Bytes,
    Fields,
    Flags,
    Numbers,
    read_fields,
    record_bounds,
)
from strandline.records import HEADER_BYTES, BatchHeader, Codec
from strandline.records.compression import decompress
from strandline.records.header import LENGTH_PREFIX_BYTES

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

RUN_BYTES_MAX: Final = 16 * MIB
"""The decompressed bytes of records in one Arrow batch, without those of its last batch of the log: two
kilobytes of zstd may have 64 MiB."""
_BUFFER_BYTES_MAX: Final = 2**31 - 1
"""The largest buffer that Arrow's positions of 32 bits reach."""

_TIMESTAMP: Final = pa.timestamp("us", "UTC")
_HEADERS: Final = pa.list_(
    pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
)
_SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", _TIMESTAMP),
        pa.field("timestampType", pa.int32(), nullable=False),
    ]
)
_SCHEMA_WITH_HEADERS: Final = _SCHEMA.append(pa.field("headers", _HEADERS))

_CODEC_MASK: Final = 0x07
_INT64_MAX: Final = 2**63 - 1
_SIZES_MAX: Final = 8
"""A layout with more changes of size is not reused: other batches are unlikely to have it."""
_SAFE: Final = 2**61
"""Two such numbers have a sum that fits 64 bits."""
_MS_MAX: Final = _INT64_MAX // 1000
"""The largest absolute time that fits 64 bits as microseconds since 1970."""


def arrow_schema(*, include_headers: bool) -> pa.Schema:
    """The source's columns: Spark accepts only batches with exactly these names, types and nullability."""
    return _SCHEMA_WITH_HEADERS if include_headers else _SCHEMA


def record_batches(
    batches: Iterable[FetchedBatch],
    *,
    include_headers: bool = False,
    stop: int | None = None,
    bytes_max: int = RUN_BYTES_MAX,
) -> Iterator[pa.RecordBatch]:
    """The wanted records of all these batches, in order, in Arrow batches of the source's columns.

    Wanted are the records of each batch from its `from_offset` on, and below `stop`, if that is given.
    `headers` are null for a record without any; a timestamp that does not fit 64 bits as microseconds is
    null. A batch is decompressed only after the Arrow batches before it were taken, and each of these ends
    with the batch that reaches `bytes_max` decompressed bytes. Raises UndecodableBatch.
    """
    schema = arrow_schema(include_headers=include_headers)
    for bodies in _runs(batches, bytes_max):
        parts = [
            part[: len(schema)]
            for name, group in groupby(bodies, key=lambda body: body.batch.name)
            for part in _parts(name, list(group), stop)
        ]
        columns = parts[0] if len(parts) == 1 else [pa.concat_arrays(col) for col in zip(*parts, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _runs(batches: Iterable[FetchedBatch], bytes_max: int) -> Iterator[list[_Body]]:
    """The batches that have records, opened, some at a time. Raises UndecodableBatch."""
    run: list[_Body] = []
    size = 0
    for batch in batches:
        body = _opened(batch)
        if batch.header.record_count or body.size:
            run.append(body)
            size += body.size
        del body  # not to be held while the next one is opened
        if size >= bytes_max:
            yield run
            run, size = [], 0
    if run:
        yield run


class _Body(NamedTuple):
    """A batch's uncompressed records, in `buffer` from `begin` to `end`."""

    batch: FetchedBatch
    buffer: bytes
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


def _opened(batch: FetchedBatch) -> _Body:
    """Raises UndecodableBatch."""
    header, data = batch.header, batch.data
    end = min(header.end, len(data))
    begin = min(header.position + HEADER_BYTES, end)
    try:
        codec = header.codec
        if codec is Codec.NONE:
            return _Body(batch, data, begin, end)
        body = decompress(codec, bytes(data[begin:end]))
    except StrandlineError as error:
        raise batch.undecodable(error) from error
    return _Body(batch, body, 0, len(body))


def _parts(name: TopicPartition, bodies: Sequence[_Body], stop: int | None) -> Iterator[list[pa.Array]]:
    """The columns of one partition's batches: consecutive plain batches are read together, each other batch
    alone."""
    together = _SideBySide.of(bodies)
    for plain, group in groupby(range(len(bodies)), key=together.is_plain):
        if plain:
            which = list(group)
            yield together.columns(name, which[0], which[-1] + 1, stop)
        else:
            for index in group:
                if len(bodies) > 1:  # its bounds may have been a guess
                    yield from _parts(name, [bodies[index]], stop)
                else:
                    yield _read_each(name, bodies[index], stop)


def _columns(
    name: TopicPartition, keys: pa.Array, values: pa.Array, offsets: pa.Array, timestamps: pa.Array,
    types: pa.Array, headers: pa.Array,
) -> list[pa.Array]:  # fmt: skip
    """The columns in the order of the schema."""
    topic, partition = pa.scalar(name.topic, pa.string()), pa.scalar(name.partition, pa.int32())
    count = len(offsets)
    topics, partitions = pa.repeat(topic, count), pa.repeat(partition, count)
    return [keys, values, topics, partitions, offsets, timestamps, types, headers]


def _below(stop: int | None, offsets: Sequence[int] | Numbers) -> int:
    """How many records have an offset below `stop`."""
    if stop is None or not len(offsets) or offsets[-1] < stop:
        return len(offsets)
    return bisect_left(offsets, stop)


# --- record by record ------------------------------------------------------------------------


def _read_each(name: TopicPartition, body: _Body, stop: int | None) -> list[pa.Array]:
    """The columns of any batch. Raises UndecodableBatch."""
    header = body.batch.header
    offsets, timestamps, keys, values, headers = _as_fetched(body).columns()
    if offsets and not -_INT64_MAX <= min(offsets) <= max(offsets) <= _INT64_MAX:
        raise body.batch.undecodable(CorruptMessage("a record has an offset of more than 64 bits"))
    rows = slice(_below(stop, offsets))
    micros = [ms * 1000 if -_MS_MAX <= ms <= _MS_MAX else None for ms in timestamps[rows]]
    return _columns(
        name,
        pa.array(keys[rows], pa.binary()),
        pa.array(values[rows], pa.binary()),
        pa.array(offsets[rows], pa.int64()),
        pa.array(micros, _TIMESTAMP),
        pa.repeat(pa.scalar(_timestamp_type(header), pa.int32()), len(micros)),
        pa.array([of_one or None for of_one in headers[rows]], _HEADERS),
    )


def _as_fetched(body: _Body) -> FetchedBatch:
    """The same batch, uncompressed."""
    header = body.batch.header
    if header.codec is Codec.NONE:
        return body.batch
    plain = header._replace(
        position=0,
        attributes=header.attributes & ~_CODEC_MASK,
        batch_length=HEADER_BYTES - LENGTH_PREFIX_BYTES + body.size,
    )
    return body.batch._replace(header=plain, data=bytes(HEADER_BYTES) + body.buffer)


def _timestamp_type(header: BatchHeader) -> int:
    return LOG_APPEND_TIME if header.is_log_append_time else CREATE_TIME


# --- vectorized -----------------------------------------------------------------------------


class _SideBySide:
    """All records of some batches of a partition, read together from one buffer."""

    def __init__(self, bodies: Sequence[_Body], buffer: bytes, begins: Sequence[int]) -> None:
        view = np.frombuffer(buffer, np.uint8)
        bounds = list(_all_bounds(bodies, begins, buffer, view))
        self._bodies, self._buffer = bodies, pa.py_buffer(buffer)
        self._counts = [len(of_one) - 1 for of_one in bounds]
        self._rows = [0, *accumulate(self._counts)]
        """The index of each batch's first record among all records."""
        self._fields = read_fields(
            view,
            np.concatenate([of_one[:-1] for of_one in bounds]),
            np.concatenate([of_one[1:] for of_one in bounds]),
        )
        sound = self._fields.sound & self._in_order(self._fields.offset_deltas)
        unsound = np.concatenate(([0], np.cumsum(~sound)))[self._rows].tolist()
        self._plain = [
            count > 0 and before == after
            for count, (before, after) in zip(self._counts, pairwise(unsound), strict=True)
        ]

    @classmethod
    def of(cls, bodies: Sequence[_Body]) -> _SideBySide:
        """Batches that are consecutive in one buffer are read in place, others are copied together."""
        first = bodies[0].buffer
        if len(first) <= _BUFFER_BYTES_MAX and all(
            before.buffer is after.buffer and before.end <= after.begin for before, after in pairwise(bodies)
        ):
            return cls(bodies, first, [body.begin for body in bodies])
        begins = [0, *accumulate(body.size for body in bodies)]
        views = [memoryview(body.buffer)[body.begin : body.end] for body in bodies]
        return cls(bodies, b"".join(views), begins[:-1])

    def _in_order(self, deltas: Numbers) -> Flags:
        """True for each record whose offset lies in its batch, above that of the previous record."""
        last = _each([body.batch.header.last_offset_delta for body in self._bodies], self._counts)
        fits = (deltas >= 0) & (deltas <= last)
        ascends = np.ones(len(deltas), np.bool_)
        ascends[1:] = deltas[1:] > deltas[:-1]
        ascends[[row for row in self._rows if row < len(deltas)]] = True
        return fits & ascends

    def is_plain(self, index: int) -> bool:
        """True if all records of a batch are sound; False also if their bounds were not found."""
        return self._plain[index]

    def columns(self, name: TopicPartition, first: int, last: int, stop: int | None) -> list[pa.Array]:
        """The columns of the wanted records in the batches `first` to `last`, all of which are plain."""
        rows = slice(self._rows[first], self._rows[last])
        fields = Fields._make(column[rows] for column in self._fields)
        headers = [body.batch.header for body in self._bodies[first:last]]
        counts = self._counts[first:last]
        offsets = fields.offset_deltas + _each([header.base_offset for header in headers], counts)
        types = [_timestamp_type(header) for header in headers]
        timestamps = fields.timestamp_deltas
        if LOG_APPEND_TIME in types:
            timestamps = np.where(_each(types, counts) == LOG_APPEND_TIME, 0, timestamps)
        timestamps = timestamps + _each(list(map(_base_time, headers)), counts)
        wanted = self._wanted(first, last, offsets, stop)
        return _columns(
            name,
            self._cut(fields.key_starts[wanted], fields.key_ends[wanted], fields.key_nulls[wanted]),
            self._cut(fields.value_starts[wanted], fields.value_ends[wanted], fields.value_nulls[wanted]),
            pa.array(offsets[wanted]),
            _timestamps(timestamps[wanted]),
            pa.array(_each(types, counts)[wanted].astype(np.int32)),
            pa.nulls(len(offsets[wanted]), _HEADERS),
        )

    def _wanted(self, first: int, last: int, offsets: Numbers, stop: int | None) -> slice | Numbers:
        """The indexes of the records from `from_offset` on and below `stop`; nearly always all of them."""
        spans, whole = [], True
        for index in range(first, last):
            batch = self._bodies[index].batch
            begin, end = self._rows[index] - self._rows[first], self._rows[index + 1] - self._rows[first]
            of_batch = offsets[begin:end]
            if batch.header.base_offset < batch.from_offset:
                begin += bisect_left(of_batch, batch.from_offset)
                of_batch = offsets[begin:end]
            wanted_end = begin + _below(stop, of_batch)
            whole = whole and wanted_end - begin == self._counts[index]
            spans.append(np.arange(begin, wanted_end))
        return slice(None) if whole else np.concatenate(spans)

    def _cut(self, starts: Numbers, ends: Numbers, nulls: Flags) -> pa.Array:
        """Bytes from the buffer. Values and the bytes between them alternate; every other piece is taken."""
        count = len(starts)
        if nulls.all():
            return pa.nulls(count, pa.binary())
        bounds = np.empty(2 * count + 1, np.int32)
        bounds[0:-1:2], bounds[1::2], bounds[-1] = starts, ends, ends[-1]
        alternating = pa.Array.from_buffers(
            pa.binary(), 2 * count, [None, pa.py_buffer(bounds), self._buffer], null_count=0
        )
        chosen = pa.array(np.arange(0, 2 * count, 2), mask=nulls if nulls.any() else None)
        return alternating.take(chosen)


def _all_bounds(
    bodies: Sequence[_Body], begins: Sequence[int], buffer: bytes, view: Bytes
) -> Iterator[Numbers]:
    """The bounds of each batch's records; empty if they are not found or the batch's numbers are too large.

    Batches of records of one size often have the same layout, so a batch with the same number of records and
    bytes as another is assumed to have its bounds. Reading the records checks this: a wrong assumption makes
    them unsound.
    """
    known: dict[tuple[int, int], Numbers] = {}
    for body, begin in zip(bodies, begins, strict=True):
        header = body.batch.header
        found = None
        counted = header.record_count <= header.last_offset_delta + 1
        if counted and -_SAFE < header.base_offset < _SAFE and -_SAFE < _base_time(header) < _SAFE:
            alike = (header.record_count, body.size)
            if (found := known.get(alike)) is None:
                found = record_bounds(buffer, view, begin, begin + body.size, header.record_count)
                if found is not None and np.count_nonzero(np.diff(found, 2)) <= _SIZES_MAX:
                    known[alike] = found - begin
            else:
                found = found + begin
        yield np.zeros(1, np.int64) if found is None else found


def _base_time(header: BatchHeader) -> int:
    """The base of a batch's timestamps; with log append time, the timestamp of all its records."""
    return header.max_timestamp if header.is_log_append_time else header.base_timestamp


def _each(of_batches: Sequence[int], counts: Sequence[int]) -> Numbers:
    """Repeats each batch's number for each of its records."""
    return np.repeat(np.array(of_batches, np.int64), counts)


def _timestamps(milliseconds: Numbers) -> pa.Array:
    fits = (milliseconds >= -_MS_MAX) & (milliseconds <= _MS_MAX)
    micros = pa.array(milliseconds * 1000, mask=None if fits.all() else ~fits)
    return micros.view(_TIMESTAMP)
