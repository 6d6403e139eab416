"""Which partition a group belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.broker.coordinators.placement import partition_of


@pytest.mark.parametrize(
    ("group", "number"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        # Java's hash of these is negative: the sign bit goes, as in Kafka's Utils.abs.
        ("polygenelubricants", 0),  # −2^31
        ("billing", 2037654139),  # −109829509
        ("é", 233),
        ("\U0001f600", 1772899),
    ],
    ids=["empty", "one letter", "word", "least number", "negative", "latin", "two units"],
)
def test_a_group_is_where_kafka_would_look_for_it(group: str, number: int) -> None:
    """`hash(group) % n`, by Java's hash of text over UTF-16 units."""
    assert partition_of(group, 1 << 31) == number


@given(st.text(), st.integers(1, 1_000))
def test_every_group_has_a_partition(group: str, partitions: int) -> None:
    assert 0 <= partition_of(group, partitions) < partitions
