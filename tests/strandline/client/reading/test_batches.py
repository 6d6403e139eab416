"""Fetched bytes become batches from a position on."""

from __future__ import annotations

import pytest

from strandline.client.reading.batches import batches_of
from strandline.ids import TopicPartition
from strandline.records import encode_values

NAME = TopicPartition("orders", 0)


@pytest.mark.parametrize("position", range(3, 9))
def test_a_fetch_within_a_batch_delivers_nothing_below_its_position(position: int) -> None:
    """CORRECTNESS H9: a broker returns the whole batch. Its first records may be deleted: the log starts at
    any offset that a client names."""
    data = b"".join(
        encode_values([b"%d" % offset for offset in range(base, base + 3)], 0, base_offset=base)
        for base in (3, 6)
    )
    batches, damaged = batches_of(NAME, position, data)
    assert damaged is None
    assert [record.offset for batch in batches for record in batch.records()] == list(range(position, 9))
