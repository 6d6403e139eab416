"""Reads topics for the jobs, and translates Spark's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships none
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from strandline.errors import StrandlineError
from strandline.pipeline.core.connection import Connection
from strandline.pipeline.spark.messages import message_of

IN_MEMORY: Final = StorageLevel.MEMORY_AND_DISK
"""For small frames; what does not fit in memory goes to disk."""
ON_DISK: Final = StorageLevel.DISK_ONLY
"""For frames that grow with the topics: in memory they would compete with sorting and grouping."""


class JobFailed(StrandlineError):
    """A Spark job failed; the message says why."""


def records(spark: SparkSession, cluster: Connection, topic: str, **options: str) -> DataFrame:
    """All present records of a topic, with the columns of the source. `options` are those of the source."""
    reader = spark.read.format("strandline").options(**cluster.options).option("subscribe", topic)
    return reader.options(**options).load()


@contextmanager
def kept(frame: DataFrame, level: StorageLevel = IN_MEMORY) -> Iterator[DataFrame]:
    """Keep a frame for several uses: the first one computes it, and the end of the block releases it."""
    frame = frame.persist(level)
    try:
        yield frame
    finally:
        frame.unpersist()


@contextmanager
def spark_errors() -> Iterator[None]:
    """Raise Spark's errors as JobFailed: with the source's message if there is one, else with the first line
    of Spark's."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise JobFailed(message_of(error)) from error
