"""A driver of its own: a streaming query that writes files of numbers to a topic, until it has written all.

python -m tests.integration.pipeline.sink_process BOOTSTRAP TOPIC FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    from strandline.pipeline.spark.session import session

    bootstrap, topic, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    spark = session(
        "local[2,4]", "sink", **{"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
    )
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
    spark.stop()


if __name__ == "__main__":
    main()
