"""Replaces segments by new ones that were written aside, in steps that survive a crash.

    X.log.cleaned          being written; deleted if a crash leaves it
    X.log.cleaned → X-Y.swap   the decision: it is whole and synced, and covers all offsets from X to Y
    the segments between X and Y are deleted, with their indexes and snapshots
    X-Y.swap → X.log       it takes the place of the first of them
    X.index.cleaned → X.index

A crash leaves either the old segments, or a swap file with which the next open reaches the same result.
Names reach the disk in the order in which they were changed, as everywhere in a log's folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from strandline.broker.storage.segments.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    file_name,
    offset_in,
)
from strandline.ports import Files

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"


def cleaned_path(directory: Path, base_offset: int, suffix: str) -> Path:
    """The path at which a segment's new file of a kind is written."""
    return directory / (file_name(base_offset, suffix) + CLEANED_SUFFIX)


def swap(directory: Path, base_offset: int, next_offset: int, *, files: Files) -> None:
    """Put the files that were written aside for these offsets into place. Raises OSError."""
    names = files.sizes(directory)  # the only step that needs a descriptor comes before any change
    name = file_name(base_offset, f"-{next_offset:020d}{SWAP_SUFFIX}")
    files.rename(cleaned_path(directory, base_offset, LOG_SUFFIX), directory / name)
    _finish(directory, name, names, files)


def finish_swaps(directory: Path, sizes: dict[str, int], *, files: Files) -> bool:
    """Undo or finish what a crash interrupted; True if there was anything. Raises OSError."""
    swaps = [name for name in sizes if name.endswith(SWAP_SUFFIX)]
    for name in swaps:
        _finish(directory, name, sizes, files)
    asides = [name for name in files.sizes(directory) if name.endswith(CLEANED_SUFFIX)]
    for name in asides:
        files.remove(directory / name)
    return bool(swaps or asides)


def _finish(directory: Path, name: str, names: Iterable[str], files: Files) -> None:
    base, end = (int(part) for part in name.removesuffix(SWAP_SUFFIX).split("-"))
    for each in sorted(names):
        if offset_in(each, INDEX_SUFFIX) == base or any(
            (at := offset_in(each, suffix)) is not None and base < at < end
            for suffix in (INDEX_SUFFIX, SNAPSHOT_SUFFIX, LOG_SUFFIX)
        ):
            files.remove(directory / each)
    files.rename(directory / name, directory / file_name(base, LOG_SUFFIX))
    index = cleaned_path(directory, base, INDEX_SUFFIX)
    if index.name in names:
        files.rename(index, directory / file_name(base, INDEX_SUFFIX))
