"""Keyed records land where Kafka's clients would put them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.producer.core.partitioner import murmur2, partition_for


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_the_one_that_kafka_uses(key: bytes, hashed: int) -> None:
    """The vectors of Kafka's own test suite, signed as Java prints them."""
    assert murmur2(key) == hashed % (1 << 32)


@given(st.binary(max_size=40), st.integers(1, 10_000))
def test_a_key_has_one_partition_and_it_exists(key: bytes, partitions: int) -> None:
    assert 0 <= partition_for(key, partitions) < partitions
    assert partition_for(key, partitions) == (murmur2(key) & 0x7FFFFFFF) % partitions
