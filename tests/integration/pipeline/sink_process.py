"""A driver of its own: a streaming query that writes files of numbers to a topic, until it has written all.

python -m tests.integration.pipeline.sink_process BOOTSTRAP TOPIC FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main() -> None:
    from strandline.pipeline.spark.session import session

    bootstrap, topic, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    spark = session("local[2,4]", "sink")
    write_lines(spark, bootstrap, topic, folder)
    spark.stop()


def write_lines(spark: SparkSession, bootstrap: str, topic: str, folder: Path) -> None:
    """Go on from the checkpoint in the folder; returns when all lines are written."""
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder / "lines"))
    query = (
        lines.selectExpr("substr(value, -1) AS key", "value")
        .writeStream.format("strandline")
        .option("bootstrap", bootstrap)
        .option("topic", topic)
        .option("batchBytes", "1024")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
