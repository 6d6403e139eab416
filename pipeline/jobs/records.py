"""The records of a topic as the jobs read them, and what goes wrong there in words of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships none
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from strandline.errors import StrandlineError

_OURS: Final = re.compile(r"^\s*(?:pipeline|strandline)\.errors\.(\w+): (.+)$", re.MULTILINE)
"""The end of a traceback of the source, somewhere in what Spark says."""
_BRIDGE: Final = re.compile(r"^An error occurred while calling \S+$|^: (?:[\w.$]+: )?")
"""What the bridge to Java puts before the words."""


IN_MEMORY: Final = StorageLevel.MEMORY_AND_DISK
"""For what is small: what does not fit goes to disk."""
ON_DISK: Final = StorageLevel.DISK_ONLY
"""For what grows with topics: in memory it would take the place that tasks sort and group in."""


class JobFailed(StrandlineError):
    """Spark could not do it; the message says why."""


def records(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    """All that is in a topic now, with the columns of the source. `options` are those of the source."""
    reader = spark.read.format("strandline").option("bootstrap", bootstrap).option("subscribe", topic)
    return reader.options(**options).load()


@contextmanager
def kept(frame: DataFrame, level: StorageLevel = IN_MEMORY) -> Iterator[DataFrame]:
    """The frame for several questions, worked out by the first of them and let go at the end of the block."""
    frame = frame.persist(level)
    try:
        yield frame
    finally:
        frame.unpersist()


@contextmanager
def said_by_spark() -> Iterator[None]:
    """What Spark raises becomes JobFailed: with the words of the source, where it was that, and else with
    those of Spark up to where its trace begins."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise JobFailed(words_of(error)) from error


def words_of(error: PySparkException | Py4JError) -> str:
    """What went wrong, in one line."""
    text = str(error)
    found = _OURS.findall(text)
    if found:
        return str(found[-1][1]).strip()
    lines = [_BRIDGE.sub("", line.strip()) for line in text.splitlines()]
    return next((line for line in lines if line), type(error).__name__)
