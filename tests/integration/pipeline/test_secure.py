"""Spark reads and writes a cluster whose every connection is encrypted and certified (docs/use/spark.md)."""

from __future__ import annotations

import asyncio

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from strandline import Admin
from strandline.local.cluster import LocalCluster
from strandline.pipeline.core.connection import Connection
from tests.conftest import ClusterFactory
from tests.integration.pipeline.test_sink import activate

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
    options = Connection.of(secure.bootstrap, secure.client_settings).options
    kafkas = {f"kafka.{name}": text for name, text in options.items() if name != "bootstrap"}

    def through_spark() -> list[str]:
        activate(spark)
        rows = spark.createDataFrame([(str(number),) for number in range(100)], "value string")
        rows.write.format("strandline").mode("append").options(topic="tides", **options).save()
        found = read(spark, bootstrap=secure.bootstrap, **kafkas)
        return [row.value for row in found.selectExpr("cast(value as string) as value").collect()]

    values = await asyncio.to_thread(through_spark)
    assert sorted(values, key=int) == [str(number) for number in range(100)]


async def test_spark_without_a_certificate_is_refused(secure: LocalCluster, spark: SparkSession) -> None:
    def without() -> None:
        activate(spark)
        read(spark, bootstrap=secure.bootstrap).collect()

    with pytest.raises(PySparkException, match="this port speaks TLS"):
        await asyncio.to_thread(without)
