"""A Spark session that reads and writes topics, with settings that do not depend on the machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships none
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from strandline.errors import SettingsError
from strandline.pipeline.source import KEEPS_SCANS_APART, StrandlineDataSource
from strandline.pipeline.spark import memory
from strandline.pipeline.spark.home import spark_home
from strandline.pipeline.spark.java import find_java
from strandline.pipeline.spark.master import check_master
from strandline.pipeline.spark.messages import message_of

# PySpark forks to start its JVM. In a process with gRPC clients, gRPC's fork handlers sometimes kill the
# child before it becomes the JVM. This package never forks without exec, so the handlers are not needed.
# gRPC reads this variable when it starts.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

LOOPBACK: Final = "127.0.0.1"

ROWS_MAX: Final = 100_000
"""Rows in a batch between Spark and Python: each batch costs a fixed time, and the memory of its rows."""

_SETTINGS: Final = {
    # Timestamps are points in time; their text must not depend on the machine.
    "spark.sql.session.timeZone": "UTC",
    # Ranges of offsets and times are selected at the log, not filtered afterwards, where Spark does it right.
    "spark.sql.python.filterPushdown.enabled": str(KEEPS_SCANS_APART).lower(),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_MAX),
    # Cached frames get a number of partitions that suits their size, like all others: two hundred nearly
    # empty partitions make every later step slow.
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    # As Spark's own, and what this project calls the files of secrets.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|ssl[._]keyfile|sasl[._]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(master: str = "local[*]", app: str = "strandline", **conf: str) -> SparkSession:
    """The Spark session of this process, created if there is none; the format "strandline" is registered.

    `conf` are Spark's settings, which override those made here: `session(**{"spark.ui.enabled": "true"})`. In
    a session that already runs only SQL settings are changed. This function sets JAVA_HOME, SPARK_HOME,
    PYSPARK_PYTHON, PYSPARK_DRIVER_PYTHON and, for a local master, SPARK_LOCAL_IP in this process's
    environment, all except the first only if they are not set. A local Spark has a quarter of the machine's
    memory, 1 to 8 GiB, unless `spark.driver.memory` is set here or in Spark's configuration. Raises
    SettingsError if there is no Java that Spark can use, or no Spark at `master`.
    """
    builder = SparkSession.builder.master(master).appName(app)
    settings = _SETTINGS | _launch()
    if SparkContext._active_spark_context is None:
        check_master(conf.get("spark.master", master), os.environ)
        os.environ["JAVA_HOME"] = str(find_java().home)
        os.environ.setdefault("SPARK_HOME", str(spark_home()))
        # Another python3 on PATH would lack these packages, or have another version.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
            if not memory.is_configured(os.environ):
                settings[memory.SETTING] = f"{memory.driver_memory_mib(memory.machine_bytes())}m"
    for name, value in (settings | conf).items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise SettingsError(f"Spark did not start with master {master!r}: {message_of(error)}") from error
    spark.dataSource.register(StrandlineDataSource)
    return spark


def _launch() -> dict[str, str]:
    """The path of these packages for executors, and a logging configuration that shows only errors."""
    home = Path(__file__).parent
    logging = f"-Dlog4j2.configurationFile={(home / 'log4j2.properties').as_uri()}"
    return {
        "spark.executorEnv.PYTHONPATH": str(home.parents[2]),
        "spark.driver.defaultJavaOptions": logging,
        "spark.executor.defaultJavaOptions": logging,
    }
