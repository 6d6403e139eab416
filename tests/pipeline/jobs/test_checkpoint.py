"""A damaged checkpoint of an archive is named, before Spark reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strandline.errors import SettingsError
from strandline.ids import TopicPartition
from strandline.pipeline.jobs.checkpoint import COMMITS, METADATA, OFFSETS, SINK, Checkpoint
from tests.conftest import SPARK_TIME

pytestmark = [pytest.mark.slow, SPARK_TIME]

LOGS = {
    METADATA: '{"id":"3d58"}',
    f"{OFFSETS}/0": 'v1\n{"batchWatermarkMs":0}\n{"t": {"0": 12}}',
    f"{OFFSETS}/1": 'v1\n{"batchWatermarkMs":0}\n{"t": {"0": 20}}',
    f"{COMMITS}/0": 'v1\n{"nextBatchWatermarkMs":0}',
    f"{SINK}/0": 'v1\n{"path":"HERE/a","size":1,"action":"add"}',
}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    for name, text in LOGS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.replace("HERE", tmp_path.as_uri()))
    return tmp_path


def look(spark: SparkSession, archive: Path) -> None:
    """All that a run reads before Spark does."""
    checkpoint = Checkpoint(spark, str(archive))
    checkpoint.check()
    end = checkpoint.end()
    assert end is not None
    assert end.offsets == {TopicPartition("t", 0): 12}
    checkpoint.files()


def test_a_whole_checkpoint_is_read(spark: SparkSession, archive: Path) -> None:
    look(spark, archive)


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.95])
def test_a_file_that_was_cut_is_named(spark: SparkSession, archive: Path, name: str, share: float) -> None:
    """Each was "a bug in strandline", or an error of Spark without the file's name."""
    data = (archive / name).read_bytes()
    (archive / name).write_bytes(data[: int(share * len(data))])
    with pytest.raises(SettingsError) as refused:
        look(spark, archive)
    assert f"is not whole: {name} is damaged (" in refused.value.message
    assert refused.value.message.endswith("put it back from a copy, or begin another archive")
    assert "\n" not in refused.value.message


def test_a_file_that_is_not_what_its_checksum_says_is_named(spark: SparkSession, archive: Path) -> None:
    name = f"{OFFSETS}/1"
    stored = Checkpoint(spark, str(archive))._path(name)
    system = stored.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    stream = system.create(stored, True)
    stream.writeBytes(LOGS[name])
    stream.close()
    (archive / name).write_bytes((archive / name).read_bytes()[:-1] + b" ")
    with pytest.raises(SettingsError, match=r"_checkpoint/offsets/1 is damaged .*Checksum"):
        look(spark, archive)
