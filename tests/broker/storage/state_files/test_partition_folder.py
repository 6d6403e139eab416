"""A replica's folder says whose it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.broker.storage.state_files.partition_folder import DESCRIPTION, Description, folder_name
from strandline.ids import PartitionId, PartitionKey, TopicId, TopicPartition

KEY = PartitionKey(TopicId("0" * 32), PartitionId(7))


def test_a_folder_has_its_partition_incarnation_and_config(tmp_path: Path) -> None:
    description = Description(TopicPartition("a-b", 7), KEY, {"retention.ms": "5"})
    description.save(tmp_path, files=SYSTEM_FILES)
    assert Description.load(tmp_path, files=SYSTEM_FILES) == description


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b'{"topic": "t", "partition": "x"}', b"\xff"]
)
def test_a_folder_that_lost_its_description_is_recognized(tmp_path: Path, content: bytes) -> None:
    (tmp_path / DESCRIPTION).write_bytes(content)
    with pytest.raises(ValueError, match=DESCRIPTION):
        Description.load(tmp_path, files=SYSTEM_FILES)


def test_another_incarnation_of_a_topic_has_another_folder() -> None:
    """CORRECTNESS E6: what is deleted belongs to one incarnation only (KIP-516)."""
    again = PartitionKey(TopicId("1" * 32), PartitionId(7))
    assert folder_name(TopicPartition("t", 7), KEY) != folder_name(TopicPartition("t", 7), again)


def test_the_longest_topic_name_fits_into_a_file_name() -> None:
    assert len(folder_name(TopicPartition("x" * 249, 9_999), KEY)) < 255
