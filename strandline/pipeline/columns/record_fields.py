"""Finds the fields of many records in one buffer without a Python object for each record.

The records of a batch are consecutive, each after its length. First their bounds are found: at once for a run
of records with equal length, which most producers write, else one after the other. Then all records are read
together, field by field, with NumPy. Any record that is not plain and without headers is unsound:
`strandline.records` decodes it, and reports what is wrong with it.
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strandline.records.varint import decode_varint

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

RECORD_BYTES_MIN: Final = 7

_RUN_MIN: Final = 8
"""A shorter run is no gain; then the next records are searched one by one."""

_WALK_MIN: Final = 32
_VARINT_BYTES_MAX: Final = 9
"""A longer one may not fit a signed number of 64 bits."""

_NULL: Final = 1
"""The length -1 in zigzag encoding."""


class Fields(NamedTuple):
    """One element for each record. Positions are those in the buffer; null has an empty range."""

    timestamp_deltas: Numbers
    offset_deltas: Numbers
    key_starts: Numbers
    key_ends: Numbers
    key_nulls: Flags
    value_starts: Numbers
    value_ends: Numbers
    value_nulls: Flags
    sound: Flags
    """True if the record has no headers and its lengths are consistent. If False, its other fields are
    meaningless."""


def record_bounds(buffer: bytes, view: Bytes, begin: int, end: int, count: int) -> Numbers | None:
    """The start of each of `count` records, and the end of the last one, which is `end`.

    None if the lengths lead elsewhere. `view` is the buffer for NumPy. `read_fields` checks that each record
    has the length that it claims.
    """
    if not 0 < count <= (end - begin) // RECORD_BYTES_MIN:
        return None
    bounds = np.empty(count + 1, np.int64)
    at, found, walk = begin, 0, _WALK_MIN
    try:
        while found < count:
            length, body = _length(buffer, at)
            size = body - at + length
            if length < 0 or at + size > end:
                return None
            run = 1
            if _repeats(buffer, at, size, buffer[at:body], count - found):
                run = _run(view[at:end], body - at, size, count - found)
            bounds[found : found + run] = np.arange(at, at + run * size, size)
            at, found = at + run * size, found + run
            if run >= _RUN_MIN:
                walk = _WALK_MIN
            elif found < count:
                walked = _walk(buffer, at, min(walk, count - found))
                bounds[found : found + len(walked)] = np.frombuffer(walked, np.int64)
                at, found, walk = walked[-1], found + len(walked) - 1, 2 * walk
    except (IndexError, OverflowError, ValueError):
        return None
    bounds[count] = at
    return bounds if at == end else None


def _length(buffer: bytes, at: int) -> tuple[int, int]:
    """The length at a position, and the position after it."""
    if (raw := buffer[at]) < 0x80:
        return raw >> 1 ^ -(raw & 1), at + 1
    return decode_varint(buffer, at)


def _repeats(buffer: bytes, at: int, size: int, length: bytes, count: int) -> bool:
    """True if a run is likely: the next few records have the same size."""
    return count >= _RUN_MIN and all(buffer.startswith(length, at + nth * size) for nth in range(1, _RUN_MIN))


def _run(rest: Bytes, width: int, size: int, most: int) -> int:
    """The number of records of equal size from the first one on, found by their repeated length."""
    most = min(most, len(rest) // size)
    same = rest[0 : most * size : size] == rest[0]
    for at in range(1, width):
        same &= rest[at : most * size : size] == rest[at]
    other = int(same.argmin())
    return most if same[other] else other


def _walk(buffer: bytes, at: int, count: int) -> array[int]:
    """The bounds of `count` records, one after the other, as their lengths lead.

    An odd length, which is a negative one, is not checked in this loop: `read_fields` checks it. Raises
    IndexError, OverflowError or ValueError if the bytes cannot be read.
    """
    bounds = array("q", (at,))
    add = bounds.append
    for _ in range(count):
        if (raw := buffer[at]) < 0x80:
            at += 1 + (raw >> 1)
        elif (high := buffer[at + 1]) < 0x80:
            at += 2 + (raw >> 1) + (high << 6) - 0x40
        else:
            length, after = decode_varint(buffer, at)
            at = after + length
        add(at)
    return bounds


def read_fields(view: Bytes, starts: Numbers, ends: Numbers) -> Fields:
    """The fields of records with the given bounds; a record that does not match its bounds is unsound."""
    length, at = _varints(view, starts)
    sound = (length & 1 == 0) & (at + (length >> 1) == ends)
    timestamps, at = _varints(view, at + 1)  # after the attributes, all of whose bits are unused
    offsets, at = _varints(view, at)
    sound &= (timestamps >= 0) & (offsets >= 0)
    key, key_starts = _varints(view, at)
    key_ends, key_nulls = _ends(key, key_starts, ends, sound)
    value, value_starts = _varints(view, key_ends)
    value_ends, value_nulls = _ends(value, value_starts, ends, sound)
    sound &= (value_ends + 1 == ends) & (view.take(ends - 1, mode="clip") == 0)
    return Fields(
        _unzigzag(timestamps), _unzigzag(offsets),
        key_starts, key_ends, key_nulls, value_starts, value_ends, value_nulls, sound,
    )  # fmt: skip


def _ends(raw: Numbers, starts: Numbers, limits: Numbers, sound: Flags) -> tuple[Numbers, Flags]:
    """The ends of fields with these raw lengths, and which are null; a field that is invalid makes its record
    unsound."""
    nulls = raw == _NULL
    lengths = raw >> 1  # 0 for null
    ends = starts + lengths
    sound &= (nulls | (raw & 1 == 0)) & (ends <= limits)
    return ends, nulls


def _unzigzag(raw: Numbers) -> Numbers:
    return raw >> 1 ^ -(raw & 1)


def _varints(view: Bytes, at: Numbers) -> tuple[Numbers, Numbers]:
    """The numbers at these positions, still zigzag-encoded, and the positions after them.

    -1 for one that is too long. A position outside the buffer is clipped to the nearest byte: such a field
    also ends outside.
    """
    first = view.take(at, mode="clip")
    raw = first.astype(np.int64)
    after = at + 1
    longer = first >= 0x80
    if not longer.any():
        return raw, after
    second = view.take(after, mode="clip").astype(np.int64)
    raw += longer * ((second << 7) - 0x80)
    after += longer
    which = np.flatnonzero(longer & (second >= 0x80))
    shift = 14
    while len(which):
        if shift == 7 * _VARINT_BYTES_MAX:
            raw[which] = -1
            break
        # The continuation bit of the previous byte is at the position of this byte's lowest bit.
        raw[which] -= 1 << shift
        byte = view.take(after[which], mode="clip").astype(np.int64)
        raw[which] += byte << shift
        after[which] += 1
        which, shift = which[byte >= 0x80], shift + 7
    return raw, after
