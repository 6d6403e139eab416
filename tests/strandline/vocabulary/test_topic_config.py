"""The bounds of topic configs."""

from __future__ import annotations

import pytest

from strandline.config.limits import STORED_BATCH_BYTES_MAX
from strandline.errors import InvalidConfig
from strandline.vocabulary.topic_config import TopicConfig


def test_the_largest_batch_is_that_of_kafka_by_default() -> None:
    """A Kafka client fills batches of 1,000,000 bytes, and some do not split a refused one."""
    assert TopicConfig().max_message_bytes == 1_048_588
    assert "max.message.bytes" not in TopicConfig().overrides()


@pytest.mark.parametrize("size", ["-1", str(2**31), "", "1e6", "524288.5"])
def test_a_size_that_kafka_does_not_take_is_refused(size: str) -> None:
    with pytest.raises(InvalidConfig, match=r"max\.message\.bytes"):
        TopicConfig.parse({"max.message.bytes": size})


@pytest.mark.parametrize(
    ("size", "in_force"), [(0, 0), (10_485_760,) * 2, (2**31 - 1, STORED_BATCH_BYTES_MAX)]
)
def test_any_size_of_kafkas_is_taken_and_the_largest_batch_has_a_bound(size: int, in_force: int) -> None:
    config = TopicConfig.parse({"max.message.bytes": str(size)})
    assert (config.max_message_bytes, config.batch_bytes_max) == (size, in_force)


def test_a_codec_and_its_level_are_of_kafkas_ranges() -> None:
    taken = {"compression.type": "gzip", "compression.gzip.level": "9", "compression.zstd.level": "-131072"}
    assert TopicConfig.parse(taken).overrides() == taken
    wrong = {
        "compression.type": "none",
        "compression.gzip.level": "0",
        "compression.lz4.level": "18",
        "compression.zstd.level": "23",
    }
    for name, value in wrong.items():
        with pytest.raises(InvalidConfig, match=f"{name}='?{value}"):
            TopicConfig.parse({name: value})
