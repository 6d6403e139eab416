"""Spark as it is quickest with a few rows: no code is generated for them, and they stay together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


@pytest.fixture(autouse=True)
def quick(spark: SparkSession) -> Iterator[None]:
    """For one test; all tests share the session."""
    before = {name: spark.conf.get(name) or "" for name in QUICK}
    for name, value in QUICK.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)
