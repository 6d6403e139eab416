"""Spark reads and writes a cluster whose every connection is encrypted and certified (docs/use/spark.md)."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
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
from tests.integration.security.logins.support.users import PASSWORD, client, with_password_file, with_users

LOG_SHOWN = 8_000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
async def secure(make_module_cluster: ClusterFactory) -> LocalCluster:
    cluster = await make_module_cluster(brokers=1, secure=True)
    async with Admin(cluster.bootstrap, **cluster.client_settings) as admin:
        await admin.create_topic("tides", partitions=2, replication_factor=1)
    return cluster


@pytest.fixture(scope="module")
async def logged_in(
    make_module_cluster: ClusterFactory, tmp_path_factory: pytest.TempPathFactory
) -> tuple[LocalCluster, dict[str, Any]]:
    """A cluster whose clients log in, and the settings of one whose password is in a file."""
    settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_enabled_mechanisms": SCRAM_SHA_512}
    made = await make_module_cluster(brokers=1, broker_settings=settings, controller_settings=settings)
    folder = tmp_path_factory.mktemp("users")
    cluster = await with_users(made, folder)
    async with Admin(cluster.bootstrap, **client()) as admin:
        await admin.create_topic("tides", partitions=2, replication_factor=1)
    return cluster, with_password_file(client(), folder / "password")


def read(spark: SparkSession, **options: str) -> DataFrame:
    return spark.read.format("strandline").options(subscribe="tides", **options).load()


async def test_rows_are_written_and_read_with_a_certificate(
    secure: LocalCluster, spark: SparkSession
) -> None:
    """On the driver and in the tasks, by batches and by a stream."""
    await asyncio.to_thread(through_spark, spark, secure.bootstrap, secure.client_settings)


async def test_rows_are_written_and_read_with_a_password(
    logged_in: tuple[LocalCluster, dict[str, Any]], spark: SparkSession
) -> None:
    """The tasks read it from its file."""
    cluster, settings = logged_in
    await asyncio.to_thread(through_spark, spark, cluster.bootstrap, settings)


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


async def test_no_secret_is_seen_in_spark(
    secure: LocalCluster, logged_in: tuple[LocalCluster, dict[str, Any]], tmp_path: Path
) -> None:
    """X13, A12: neither those of files, nor one that was given as an option by mistake: not in plans, pages,
    logs and errors, and not in the log of events, from which Spark's history shows all of it later."""
    cluster, settings = logged_in
    reached = [(secure, secure.client_settings), (cluster, settings)]
    options = [("tides", Connection.of(each.bootstrap, has).options) for each, has in reached]
    mistaken = f"by-mistake-{secrets.token_hex(8)}"
    given = [{name: mistaken} for name in ("sasl.password", "kafka.sasl.password", "ssl.key.password")]
    with (tmp_path / "out").open("wb") as out, (tmp_path / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.integration.pipeline.secret_process"),
            *(str(tmp_path / "events"), json.dumps(options), json.dumps(given)),
            stdout=out, stderr=log,
        )  # fmt: skip
        try:
            assert await process.wait() == 0, (tmp_path / "log").read_text()[-LOG_SHOWN:]
        finally:
            if process.returncode is None:
                process.kill()
    printed = (tmp_path / "out").read_text()
    logged = (tmp_path / "log").read_text()
    events = "".join(path.read_text() for path in (tmp_path / "events").rglob("*") if path.is_file())
    assert printed.count("refused ") == 4 * len(given)
    assert printed.count("put the secret into a file") >= 4 * len(given)
    for shown in (printed, events):  # there are plans to be looked through
        assert "BatchScan strandline" in shown and "spark.redaction.regex" in shown
    assert "INFO" in logged
    key = Path(secure.client_settings["ssl_keyfile"]).read_text().splitlines()[1:-1]
    for secret in (PASSWORD, mistaken, *key):
        for where, shown in (("out", printed), ("log", logged), ("events", events)):
            at = shown.find(secret)
            assert at < 0, (where, shown[max(0, at - 1_000) : at + 100])
