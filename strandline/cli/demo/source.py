"""Reads the records that the demo feeds: a sample from PySpark, or the lines of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from strandline.errors import SettingsError

SAMPLE: Final = "data/mllib/als/sample_movielens_ratings.txt"
LINES_MIN: Final = 100


@dataclass(frozen=True, slots=True)
class Source:
    """Records, each a key and a value, and their description."""

    name: str
    records: Sequence[tuple[bytes, bytes]]


def movielens() -> Source:
    """The ratings in PySpark's wheel, user::movie::rating::time a line, keyed by movie.

    The file is sorted by user, so neighbouring records go to different partitions. Raises SettingsError if
    PySpark is not installed.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SettingsError(
            "the MovieLens sample comes with PySpark, which is not installed: "
            "pip install 'strandline[local]', or name a file of your own with --file"
        )
    lines = (Path(spec.origin).parent / SAMPLE).read_bytes().splitlines()
    return Source("MovieLens ratings, keyed by movie", [(line.split(b"::")[1], line) for line in lines])


def lines_of(path: Path, separator: bytes) -> Source:
    """A file's lines, each keyed by its text before `separator`. Raises SettingsError if there are too
    few."""
    lines = path.read_bytes().splitlines()
    if len(lines) < LINES_MIN:
        raise SettingsError(
            f"{path} has {len(lines)} lines; the demo wants at least {LINES_MIN}, to kill a leader among them"
        )
    records = [(line.partition(separator)[0], line) for line in lines]
    return Source(f"lines of {path}, keyed by their first field", records)
