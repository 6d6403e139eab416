"""Reads histories of `strandline verify` as a DataFrame: JSON lines with an explicit schema.

Of each value only a hash of 128 bits is kept; collisions do not occur in practice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from strandline.auditing.history import FIELDS, OUTCOMES, InvalidHistory, parse, read_lines
from strandline.errors import Outcome
from strandline.pipeline.jobs.records import ON_DISK, kept

LINES: Final = (
    "event string, seq bigint, topic string, record bigint, partition int, offset bigint, proven bigint, "
    "outcome string, partitions array<int>, value string, value_encoding string, unreadable string"
)
"""The fields read from a line. `unreadable` is the text of a line that is not such JSON."""

DENIED: Final = {outcome.value: n for n, outcome in enumerate(Outcome, 1) if outcome is not Outcome.UNKNOWN}
"""Outcomes of records that were not appended, as numbers; 0 is any other outcome."""

KEPT: Final = (
    "history", "event", "seq", "topic", "record", "partition", "offset", "proven", "denied", "partitions",
    "hash", "more",
)  # fmt: skip
SCHEME: Final = "^file:/*"
"""Spark writes the same file as file:/a in one place and as file:///a in another."""
TAIL_BYTES: Final = 1 << 16


def hashes(value: Column) -> tuple[Column, Column]:
    """Two independent hashes of bytes, of 64 bits each, as `hash` and `more`."""
    return F.xxhash64(value).alias("hash"), F.xxhash64(F.lit(1), value).alias("more")


class HistoryEvents(NamedTuple):
    """The events of some histories, and the topics of each history."""

    events: DataFrame
    topics: list[frozenset[str]]


@contextmanager
def read_events(spark: SparkSession, paths: Sequence[Path]) -> Iterator[HistoryEvents]:
    """The events of these files, which Spark keeps on disk until the end of the block.

    The columns are `history` (the file's index in `paths`), `event`, `seq`, `topic`, and the fields of the
    event, null where it has none: `record`, `partition`, `offset`, `proven`, `denied` (a number of DENIED),
    `partitions`, and `hash` and `more` of a value.

    Raises InvalidHistory as `strandline.auditing.history.read`, OSError.
    """
    for path in paths:
        path.open("rb").close()  # gives a shorter error for a missing file than Spark's
    with kept(_all_lines(spark, paths), ON_DISK) as lines:
        topics = _check(lines, paths)
        yield HistoryEvents(lines.where("not wrong").select(*KEPT), topics)


def _all_lines(spark: SparkSession, paths: Sequence[Path]) -> DataFrame:
    """All lines, including invalid ones."""
    lines = (
        spark.read.schema(LINES)
        .option("mode", "PERMISSIVE")
        .option("columnNameOfCorruptRecord", "unreadable")
        .option("lineSep", "\n")
        .json([_literally(path) for path in paths])
        .withColumn("file", F.regexp_replace("_metadata.file_path", SCHEME, "/"))
    )
    coded = F.col("value_encoding") == "base64"
    value = F.when(coded, F.try_to_binary("value", F.lit("base64"))).otherwise(F.col("value").cast("binary"))
    denied = F.coalesce(*(F.when(F.col("outcome") == name, n) for name, n in DENIED.items()), F.lit(0))
    hash_, more = hashes(F.col("bytes"))
    return (
        lines.withColumn("bytes", value)
        .withColumn("valued", F.col("event").isin("sent", "received"))
        .withColumn("wrong", _wrong())
        .withColumn("hash", F.when(F.col("valued"), hash_))
        .withColumn("more", F.when(F.col("valued"), more))
        .withColumn("denied", denied.cast("tinyint"))
        .join(F.broadcast(_numbered(spark, lines, paths)), "file", "left")
        .select(*KEPT, "wrong")
    )


def _numbered(spark: SparkSession, lines: DataFrame, paths: Sequence[Path]) -> DataFrame:
    """The number of each file, by Spark's name for it."""
    numbers = {os.path.abspath(path): number for number, path in enumerate(paths)}
    files = [re.sub(SCHEME, "/", file) for file in lines.inputFiles()]
    named = [(file, numbers[unquote(file)]) for file in files]
    return spark.createDataFrame(named, "file string, history int")


def _literally(path: Path) -> str:
    """A path with its pattern characters escaped."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path.absolute()))


def _wrong() -> Column:
    """True for a line that is not an event with all its fields."""
    missing = F.lit(False)
    for event, names in FIELDS.items():
        lacking = [F.col(name).isNull() for name in names if name != "value"]
        missing = missing | ((F.col("event") == event) & reduce(Column.__or__, lacking, F.lit(False)))
    outcomes = F.col("outcome").isNotNull() & ~F.col("outcome").isin(*OUTCOMES)
    encodings = F.col("value_encoding").isNotNull() & (
        (F.col("value_encoding") != "base64") | (F.col("value").isNotNull() & F.col("bytes").isNull())
    )
    known = F.col("event").isin(*FIELDS) & F.col("seq").isNotNull() & F.col("topic").isNotNull()
    return (
        F.col("unreadable").isNotNull() | ~F.coalesce(known, F.lit(False)) | F.coalesce(missing, F.lit(True))
        | outcomes | encodings
    )  # fmt: skip


def _check(lines: DataFrame, paths: Sequence[Path]) -> list[frozenset[str]]:
    """The topics of each file. Raises InvalidHistory if a line other than the last cannot be read."""
    counts: list[Row] = (
        lines.groupBy("history")
        .agg(
            F.count_if(F.col("wrong")).alias("wrong"),
            F.count_if(F.expr("not wrong and seq = 0")).alias("begun"),
            F.collect_set(F.expr("if(wrong, null, topic)")).alias("topics"),
        )
        .collect()
    )
    topics = [frozenset[str]() for _ in paths]
    for count in counts:
        if count.history is None:
            raise AssertionError(f"lines of a file that is none of {', '.join(map(str, paths))}")
        path = paths[count.history]
        topics[count.history] = frozenset(count.topics)
        if count.begun <= 1 and (count.wrong == 0 or (count.wrong == 1 and not _ends_well(path))):
            continue
        with path.open("rb") as file:
            for _ in read_lines(str(path), file):  # raises at the invalid line
                pass
        raise InvalidHistory(f"{path}: {count.wrong} lines cannot be read, or belong to a second run")
    return topics


def _ends_well(path: Path) -> bool:
    """True if the last line can be read."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        tail, taken = b"", 0
        while taken < size and b"\n" not in tail.rstrip():
            taken = min(size, max(TAIL_BYTES, 2 * taken))
            file.seek(size - taken)
            tail = file.read(taken)
    try:
        parse(tail.rstrip().rpartition(b"\n")[2])
    except ValueError:
        return False
    return True
