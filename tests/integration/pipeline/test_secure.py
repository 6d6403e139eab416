"""Spark reads and writes a cluster whose every connection is encrypted and certified (docs/use/spark.md)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from strandline import Admin
from strandline.local.cluster import LocalCluster
from strandline.pipeline.core.connection import Connection
from strandline.pipeline.jobs import lifecycle
from strandline.security.login.mechanisms import SCRAM_SHA_512
from tests.conftest import ClusterFactory
from tests.integration.pipeline.test_sink import activate
from tests.integration.security.logins.support.users import client, with_users

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
async def secure(make_module_cluster: ClusterFactory) -> LocalCluster:
    cluster = await make_module_cluster(brokers=1, secure=True)
    async with Admin(cluster.bootstrap, **cluster.client_settings) as admin:
        await admin.create_topic("tides", partitions=2, replication_factor=1)
    return cluster


def read(spark: SparkSession, **options: str) -> DataFrame:
    return spark.read.format("strandline").options(subscribe="tides", **options).load()


async def test_rows_are_written_and_read_with_a_certificate(
    secure: LocalCluster, spark: SparkSession
) -> None:
    """On the driver and in the tasks, by batches and by a stream."""
    await asyncio.to_thread(through_spark, spark, secure.bootstrap, secure.client_settings)


async def test_rows_are_written_and_read_with_a_password(
    make_cluster: ClusterFactory, spark: SparkSession, tmp_path: Path
) -> None:
    """The tasks read it from its file."""
    settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_enabled_mechanisms": SCRAM_SHA_512}
    made = await make_cluster(brokers=1, broker_settings=settings, controller_settings=settings)
    cluster = await with_users(made, tmp_path)
    async with Admin(cluster.bootstrap, **client()) as admin:
        await admin.create_topic("tides", partitions=2, replication_factor=1)
    of_client = {**client(), "sasl_password_file": str(tmp_path / "password")}
    del of_client["sasl_password"]
    await asyncio.to_thread(through_spark, spark, cluster.bootstrap, of_client)


def through_spark(spark: SparkSession, bootstrap: str, settings: dict[str, Any]) -> None:
    """Writes rows and reads them, once with the prefix of the options and once without."""
    options = Connection.of(bootstrap, settings).options
    kafkas = {f"kafka.{name}": text for name, text in options.items() if name != "bootstrap"}
    activate(spark)
    rows = spark.createDataFrame([(str(number),) for number in range(100)], "value string")
    rows.write.format("strandline").mode("append").options(topic="tides", **options).save()
    found = read(spark, bootstrap=bootstrap, **kafkas)
    values = [row.value for row in found.selectExpr("cast(value as string) as value").collect()]
    assert sorted(values, key=int) == [str(number) for number in range(100)]


async def test_spark_without_a_certificate_is_refused(secure: LocalCluster, spark: SparkSession) -> None:
    def without() -> None:
        activate(spark)
        read(spark, bootstrap=secure.bootstrap).collect()

    with pytest.raises(PySparkException, match="this port speaks TLS"):
        await asyncio.to_thread(without)


async def test_a_job_reads_with_a_certificate(secure: LocalCluster, spark: SparkSession) -> None:
    """With the settings of the command line's clients."""
    reaching = Connection.of(secure.bootstrap, secure.client_settings)
    found = await asyncio.to_thread(lifecycle.run, spark, reaching, 2**40, 100)
    assert found.latencies
