"""The bounds of topic configs."""

from __future__ import annotations

import pytest

from strandline.config.limits import MESSAGE_BYTES_MAX, STORED_BATCH_BYTES_MAX
from strandline.errors import InvalidConfig
from strandline.vocabulary.topic_config import TopicConfig


def test_the_largest_batch_is_that_of_kafka_by_default() -> None:
    """A Kafka client fills batches of 1,000,000 bytes, and some do not split a refused one."""
    assert TopicConfig().max_message_bytes == 1_048_588
    assert "max.message.bytes" not in TopicConfig().overrides()


@pytest.mark.parametrize("size", ["1023", str(STORED_BATCH_BYTES_MAX + 1), "-1", "", "1e6", "524288.5"])
def test_a_size_that_no_message_carries_is_refused(size: str) -> None:
    """The largest batch leaves room for the rest of a message of the replication stream."""
    with pytest.raises(InvalidConfig, match=r"max\.message\.bytes"):
        TopicConfig.parse({"max.message.bytes": size})
    largest = TopicConfig.parse({"max.message.bytes": str(STORED_BATCH_BYTES_MAX)})
    assert largest.max_message_bytes < MESSAGE_BYTES_MAX
