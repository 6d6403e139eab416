"""The batches that cases send have the right form, and the wrong ones only the fault that was asked for."""

from __future__ import annotations

import pytest

from strandline_lab.conformance.batches import CONTROL, Batch, Record, crc32c, described, varint

START = 1_700_000_000_000


def test_the_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the check value of RFC 3720's polynomial


@pytest.mark.parametrize(
    ("value", "data"), [(0, b"\0"), (-1, b"\1"), (1, b"\2"), (64, b"\x80\1"), (-65, b"\x81\1")]
)
def test_varints_are_zigzag(value: int, data: bytes) -> None:
    assert varint(value) == data


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_right_batch_is_described(codec: str) -> None:
    batch = Batch(
        (Record(b"k", b"v", ((b"h", None),)),) * 3, codec=codec, at_ms=5, producer=9, epoch=1, sequence=2
    )
    (found,) = described(batch.encoded(START))
    assert found["CrcIsRight"]
    assert (found["Magic"], found["LastOffsetDelta"], found["Count"]) == (2, 2, 3)
    assert (found["FirstTime"], found["MaxTime"]) == (START + 5, START + 5)
    assert (found["ProducerId"], found["ProducerEpoch"], found["Sequence"]) == (9, 1, 2)


def test_a_wrong_checksum_is_seen() -> None:
    (found,) = described(Batch(crc_off_by=1).encoded(START))
    assert not found["CrcIsRight"]


def test_what_follows_the_last_batch_is_counted() -> None:
    *batches, rest = described(Batch().encoded(START) + Batch(cut=3).encoded(START))
    assert len(batches) == 1
    assert rest == {"LeftOver": len(Batch().encoded(START)) - 3}


def test_equal_batches_have_equal_bytes() -> None:
    assert Batch(codec="gzip").encoded(START) == Batch(codec="gzip").encoded(START)


def test_the_epoch_of_a_markers_coordinator_is_a_field_of_its_own() -> None:
    first, second = (
        described(Batch((Record(b"\0\0\0\1", b"\0\0" + epoch),), attributes=CONTROL).encoded(START))
        for epoch in (b"\0\0\0\7", b"\0\0\1\0")
    )
    assert [each["CoordinatorEpoch"] for each in (*first, *second)] == [7, 256]
    assert first[0]["Records"] == second[0]["Records"]
