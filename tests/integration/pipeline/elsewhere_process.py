"""A driver of its own whose tasks run in executors of their own: copies a topic to another one, as a stream.

python elsewhere_process.py PACKAGES MASTER BOOTSTRAP SOURCE TARGET CHECKPOINT

It finds strandline in the folder PACKAGES and nowhere else. Before it copies, it reads SOURCE as a batch, and
prints as a line of JSON how many rows there are and in which files its executors found the packages.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

TOO_SLOW = "Python worker failed to connect back"
START_TRIES = 8
"""Spark gives the Python process of a stream's driver ten seconds to come up, however busy the machine is."""
BATCHES = 3


def main() -> None:
    packages, master, bootstrap, source, target, checkpoint = sys.argv[1:]
    sys.path.insert(0, packages)
    from strandline.pipeline.spark.session import session

    spark = session(master, "elsewhere")
    options = {"bootstrap": bootstrap, "subscribe": source, "includeHeaders": "true"}
    rows, homes = look(spark.read.format("strandline").options(**options).load())
    print(json.dumps({"rows": rows, "homes": homes}), flush=True)

    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(rows // BATCHES)}
    copy(
        spark.readStream.format("strandline").options(**options, **limits).load(),
        bootstrap,
        target,
        checkpoint,
    )
    spark.stop()


def look(frame: DataFrame) -> tuple[int, list[str]]:
    """How many rows there are, and where their tasks find the packages."""

    def counted(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from strandline.pipeline import source

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows], "home": [source.__file__]})

    found = frame.mapInArrow(counted, "rows long, home string").collect()
    return sum(row.rows for row in found), sorted({row.home for row in found})


def copy(rows: DataFrame, bootstrap: str, target: str, checkpoint: str) -> None:
    """In a few micro-batches of many small appends, so that something can happen in the middle of one."""
    from pyspark.errors import StreamingQueryException

    writer = rows.drop("topic").writeStream.format("strandline").trigger(availableNow=True)
    writer = writer.options(
        bootstrap=bootstrap, topic=target, batchBytes="1024", checkpointLocation=checkpoint
    )
    for _ in range(START_TRIES):
        try:
            writer.start().awaitTermination()
        except StreamingQueryException as error:
            if TOO_SLOW not in str(error):
                raise
        else:
            return
    raise TimeoutError(f"the query did not start in {START_TRIES} tries")


if __name__ == "__main__":
    main()
