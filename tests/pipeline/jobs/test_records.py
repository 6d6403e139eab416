"""Errors of Spark as the jobs report them: the source's own message, where there is one."""

from __future__ import annotations

import traceback

import pytest
from pyspark.errors import PySparkException

from strandline.errors import StrandlineError, UnknownTopicOrPartition
from strandline.pipeline.errors import DataLost
from strandline.pipeline.jobs.records import JobFailed, spark_errors


@pytest.mark.parametrize("error", [DataLost("offsets 3 to 4 are gone"), UnknownTopicOrPartition("no orders")])
def test_a_jobs_error_has_the_message_of_the_source(error: StrandlineError) -> None:
    """Spark's text has the traceback of the Python worker in it."""
    trace = "".join(traceback.format_exception(error))
    with pytest.raises(JobFailed) as failed, spark_errors():
        raise PySparkException(f"Job aborted due to stage failure:\n{trace}\n\tat org.apache.spark")
    assert failed.value.message == error.message


def test_an_error_of_spark_itself_has_its_first_line() -> None:
    with pytest.raises(JobFailed) as failed, spark_errors():
        raise PySparkException("\nthe disk is full\n\tat java.base")
    assert failed.value.message == "the disk is full"
