"""Which part of a partition's log is asked for, and what is said about the part that is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from strandline.console.core.words import number


class From(StrEnum):
    """Where a part of a log begins. END: so that it ends with the last committed record."""

    END = "end"
    EARLIEST = "earliest"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Ends:
    """The offsets of a log: where it starts, the high watermark, and the end, above which nothing is."""

    start: int
    high_watermark: int
    end: int


def first_offset(where: From, at: int, count: int, ends: Ends) -> int:
    """The offset to read first. `at`: the offset that is asked for, or the one found for a time, -1 if no
    record is that recent."""
    wanted = {
        From.EARLIEST: ends.start,
        From.END: ends.high_watermark - count,
        From.OFFSET: at,
        From.TIME: ends.high_watermark if at < 0 else at,
    }
    return min(max(wanted[where], ends.start), max(ends.start, ends.high_watermark))


def notes(
    where: From, at: int, ends: Ends, first: int, offsets: Sequence[int], *, compacts: bool
) -> list[str]:
    """What a reader has to know of the records with these offsets, which were read from `first` on."""
    said = []
    if where is From.OFFSET and at < ends.start:
        said.append(f"Records below offset {number(ends.start)} are deleted: the log starts there.")
    if where is From.OFFSET and at >= max(ends.high_watermark, 1):
        said.append(f"There is no record at offset {number(at)} yet: the next one gets {number(ends.end)}.")
    if where is From.TIME and at < 0:
        said.append("No record is that recent.")
    if offsets and offsets[0] > first:
        said.append(missing(first, offsets[0], compacts=compacts))
    if ends.start >= ends.high_watermark:
        said.append(
            "The partition has no record now." if ends.end else "The partition has never had a record."
        )
    if ends.end > ends.high_watermark >= 0:
        behind = ends.end - ends.high_watermark
        said.append(
            f"{number(behind)} further {'record is' if behind == 1 else 'records are'} not committed yet: "
            "consumers see them once all in-sync replicas have them."
        )
    return said


def missing(first: int, end: int, *, compacts: bool) -> str:
    """What is said where a log has no records from `first` up to `end`."""
    where = (
        f"Offset {number(first)} has"
        if end == first + 1
        else f"Offsets {number(first)} to {number(end - 1)} have"
    )
    if compacts:
        return f"{where} no record now: compaction keeps the last record of each key."
    return f"{where} no record."
