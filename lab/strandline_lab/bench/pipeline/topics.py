"""Topics for measurements with Spark: values that do not compress, in a topic and in Parquet files."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from strandline import Admin, Producer
from strandline.adapters.system.clock import SystemClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MASTER: Final = "local[2]"
PARTITIONS: Final = 4
REPLICAS: Final = 3
LINGER_MS: Final = 5


@dataclass(frozen=True, slots=True)
class Case:
    """A number of records of one size, in a topic of four partitions."""

    name: str
    records: int
    value_bytes: int
    at_once: int = 100_000
    """Values of one bulk call."""

    @property
    def size(self) -> int:
        """The bytes of all values."""
        return self.records * self.value_bytes

    def values(self) -> Iterator[list[bytes]]:
        """The values, the same ones each time, in lists for a bulk call."""
        chance = random.Random(self.name)
        for begin in range(0, self.records, self.at_once):
            count = min(self.at_once, self.records - begin)
            noise = chance.randbytes(count * self.value_bytes)
            yield [noise[at : at + self.value_bytes] for at in range(0, len(noise), self.value_bytes)]


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """A session with two cores; stopped at the end."""
    from strandline.pipeline.spark.session import session

    spark = session(MASTER, "bench", **{"spark.driver.memory": "2g"})
    try:
        yield spark
    finally:
        spark.stop()


async def new_topic(bootstrap: Sequence[str] | str) -> str:
    """Creates an empty topic."""
    topic = f"bench-{uuid4().hex[:8]}"
    async with Admin(bootstrap) as admin:
        await admin.create_topic(topic, partitions=PARTITIONS, replication_factor=REPLICAS)
    return topic


async def sent(bootstrap: Sequence[str] | str, topic: str, lists: Sequence[Sequence[bytes]]) -> float:
    """Seconds until the producer's bulk call has all of them acknowledged by all replicas."""
    clock = SystemClock()
    async with Producer(bootstrap, linger_ms=LINGER_MS) as producer:
        began = clock.monotonic()
        waiting = [await producer.send_many(topic, values) for values in lists]
        for each in waiting:
            await each
        return clock.monotonic() - began


async def filled(bootstrap: Sequence[str] | str, case: Case) -> str:
    """Creates a topic with the records of a case."""
    topic = await new_topic(bootstrap)
    await sent(bootstrap, topic, list(case.values()))
    return topic


def loaded(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """All records of a topic."""
    return spark.read.format("strandline").option("bootstrap", bootstrap).option("subscribe", topic).load()


def seconds(work: Callable[[], object]) -> float:
    """The duration of the work."""
    clock = SystemClock()
    began = clock.monotonic()
    work()
    return clock.monotonic() - began


def show_progress(what: str) -> None:
    """Shows the progress of the measurement."""
    print(what, file=sys.stderr, flush=True)
