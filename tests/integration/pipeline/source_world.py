"""A topic with everything that records can have, and what of it a consumer and Spark find."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from strandline import Admin, Consumer, NewTopic, Producer, TopicPartition
from strandline.config.limits import KIB
from strandline.local.cluster import LocalCluster

T = TypeVar("T")

TOO_SLOW = "Python worker failed to connect back"
START_TRIES = 8
"""Spark gives the Python process of a stream's driver ten seconds to come up, however busy the machine is."""


class Row(NamedTuple):
    """A record, as a consumer hands it out and as Spark has it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class World:
    """A cluster and a Spark that reads it. Spark's calls run in a thread."""

    def __init__(self, cluster: LocalCluster, spark: SparkSession, home: Path) -> None:
        self.cluster = cluster
        self.spark = spark
        self.home = home

    # --- topics --------------------------------------------------------------------------------

    async def topic(
        self,
        partitions: int = 1,
        *,
        name: str | None = None,
        config: Mapping[str, str] | None = None,
        replicas: int = 3,
    ) -> str:
        """A new one, of which nothing is deleted unless its configuration says so."""
        name = name or f"source-{uuid4().hex[:8]}"
        async with Admin(self.cluster.bootstrap) as admin:
            await admin.create_topics(
                [NewTopic(name, partitions, replicas, {"retention.ms": "-1", **(config or {})})]
            )
        return name

    async def fill(
        self, topic: str, values: Iterable[bytes], *, partition: int = 0, batch_bytes: int = 256 * KIB
    ) -> None:
        """Append these, all acknowledged on return."""
        async with Producer(self.cluster.bootstrap, linger_ms=5, batch_bytes=batch_bytes) as producer:
            await (await producer.send_many(topic, list(values), partition=partition))

    async def rows(self, *topics: str) -> list[Row]:
        """All that a consumer finds in these topics now."""
        found: list[Row] = []
        async with Consumer(self.cluster.bootstrap, offset_reset="earliest") as consumer:
            names = [
                TopicPartition(topic, partition)
                for topic in topics
                for partition in await consumer.partitions_for(topic)
            ]
            consumer.assign(names)
            ends = await consumer.end_offsets(names)
            while any([await consumer.position(name) < end for name, end in ends.items()]):
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += [Row(*record) for record in records]
        return sorted(found)

    # --- Spark ---------------------------------------------------------------------------------

    def load(self, **options: str) -> DataFrame:
        """A batch DataFrame."""
        reader = self.spark.read.format("strandline").option("bootstrap", self.cluster.bootstrap)
        return reader.options(**options).load()

    def stream(self, **options: str) -> DataFrame:
        reader = self.spark.readStream.format("strandline").option("bootstrap", self.cluster.bootstrap)
        return reader.options(**options).load()

    async def found(self, make: Callable[[], DataFrame]) -> list[Row]:
        """The rows of a DataFrame that has the columns of the source."""
        return await asyncio.to_thread(lambda: rows_of(make()))

    def run(
        self, frame: DataFrame, name: str, *, each: Callable[[DataFrame, int], None] | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """Run a stream until it has all there is; the progress of its batches. Its rows are in `written`."""
        writer = self._writer(frame, name, each).trigger(availableNow=True)

        def to_the_end() -> Sequence[Mapping[str, Any]]:
            query = writer.start()
            query.awaitTermination()
            return [as_dict(progress) for progress in query.recentProgress]

        return patiently(to_the_end)

    def going(self, frame: DataFrame, name: str) -> StreamingQuery:
        """A running stream, once its first batch is done."""
        writer = self._writer(frame, name, None).trigger(processingTime="20 milliseconds")

        def begun() -> StreamingQuery:
            query = writer.start()
            while query.lastProgress is None:
                query.awaitTermination(0.05)  # type: ignore[arg-type]  # seconds, and parts of them
            return query

        return patiently(begun)

    def _writer(
        self, frame: DataFrame, name: str, each: Callable[[DataFrame, int], None] | None
    ) -> DataStreamWriter:
        checkpoint = str(self.home / name / "checkpoint")
        return frame.writeStream.option("checkpointLocation", checkpoint).foreachBatch(
            each or self.keep(name)
        )

    def keep(self, name: str) -> Callable[[DataFrame, int], None]:
        """Each batch in a folder of its own, which a repeat of the batch overwrites."""
        folder = self.home / name

        def keep(batch: DataFrame, number: int) -> None:
            batch.write.mode("overwrite").parquet(str(folder / f"batch={number}"))

        return keep

    def written(self, name: str) -> list[Row]:
        """The records of all batches of a stream."""
        folders = [str(folder) for folder in sorted((self.home / name).glob("batch=*"))]
        return rows_of(self.spark.read.parquet(*folders)) if folders else []


def patiently(run: Callable[[], T]) -> T:
    """The results of a query, after Spark has started it."""
    for _ in range(START_TRIES):
        try:
            return run()
        except StreamingQueryException as error:
            if TOO_SLOW not in str(error):
                raise
    return run()


def as_dict(progress: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(progress.json)
    return found


def rows_of(frame: DataFrame) -> list[Row]:
    """In the order of topics, partitions and offsets."""
    headers = ["headers"] if "headers" in frame.columns else []
    columns = ["topic", "partition", "offset", "unix_millis(timestamp)", "key", "value", *headers]
    return sorted(
        Row(
            one[0],
            one[1],
            one[2],
            one[3],
            None if one[4] is None else bytes(one[4]),
            None if one[5] is None else bytes(one[5]),
            tuple(
                (key, None if value is None else bytes(value))
                for key, value in ((one[6] or ()) if headers else ())
            ),
        )
        for one in frame.selectExpr(*columns).collect()
    )
