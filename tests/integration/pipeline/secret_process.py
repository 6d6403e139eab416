"""A Spark that shows all that it has: it writes and reads topics, explains its plans, and prints the errors
of options that are refused and all pages of its user interface.

Arguments: a folder for Spark's event log, and as JSON a topic of each cluster with the options that reach it,
and the options that are refused. Its log is on standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.request import urlopen

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from strandline.pipeline.spark.session import session

FORMAT = "strandline"
PAGES = ("environment/", "SQL/", "jobs/", "stages/", "executors/", "storage/", "StreamingQuery/")
FACTS = ("environment", "sql?details=true&planDescription=true&length=1000", "jobs", "stages", "allexecutors")
ENDED_MS = 120_000


def works(spark: SparkSession, options: Mapping[str, str], topic: str, folder: Path) -> None:
    """Rows by a batch and by a stream, with their plans."""
    rows(spark).write.format(FORMAT).mode("append").options(topic=topic, **options).save()
    found = spark.read.format(FORMAT).options(subscribe=topic, **options).load()
    print("rows", found.count())
    explain(found)
    query = (
        spark.readStream.format(FORMAT)
        .options(subscribe=topic, startingOffsets="earliest", **options).load()
        .writeStream.format(FORMAT).options(topic=topic, checkpointLocation=str(folder), **options)
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination(ENDED_MS)
    query.explain(True)
    print(query.lastProgress)


def explain(frame: DataFrame) -> None:
    for mode in ("extended", "codegen", "cost", "formatted"):
        frame.explain(mode=mode)


def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("high",), ("low",)], "value string")


def refused(spark: SparkSession, options: Mapping[str, str], topic: str, folder: Path) -> None:
    """Prints the error of each use of these options."""
    uses: list[Callable[[], object]] = [
        lambda: spark.read.format(FORMAT).options(subscribe=topic, **options).load().collect(),
        lambda: rows(spark).write.format(FORMAT).mode("append").options(topic=topic, **options).save(),
        lambda: (
            spark.readStream.format(FORMAT).options(subscribe=topic, **options).load()
            .writeStream.format("memory").queryName("never").start().awaitTermination(ENDED_MS)
        ),
        lambda: (
            spark.readStream.format("rate").load().selectExpr("cast(value as string) as value")
            .writeStream.format(FORMAT).options(topic=topic, checkpointLocation=str(folder), **options)
            .start().awaitTermination(ENDED_MS)
        ),
    ]  # fmt: skip
    for use in uses:
        try:
            use()
        except PySparkException as error:
            print("refused", error)
        else:
            raise AssertionError("the options were taken")


def show_pages(spark: SparkSession) -> None:
    ui = spark.sparkContext.uiWebUrl
    application = f"api/v1/applications/{spark.sparkContext.applicationId}"
    executions = json.loads(page(f"{ui}/{application}/sql?length=1000"))
    plans = [f"SQL/execution/?id={each['id']}" for each in executions]
    for path in (*PAGES, *plans, *(f"{application}/{name}" for name in FACTS)):
        print("page", path, page(f"{ui}/{path}"))


def page(url: str) -> str:
    with urlopen(url) as answer:
        return str(answer.read().decode())


def main(events: str, clusters: list[tuple[str, dict[str, str]]], secrets: list[dict[str, str]]) -> None:
    Path(events).mkdir()
    conf = {
        "spark.ui.enabled": "true",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file:{events}",
        "spark.eventLog.compress": "false",
    }
    spark = session("local[2]", "secrets", **conf)
    spark.sparkContext.setLogLevel("INFO")
    folder = Path(events).parent
    for number, (topic, options) in enumerate(clusters):
        works(spark, options, topic, folder / f"checkpoint-{number}")
    topic, options = clusters[0]
    for number, secret in enumerate(secrets):
        refused(spark, {**options, **secret}, topic, folder / f"refused-{number}")
    show_pages(spark)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3]))
