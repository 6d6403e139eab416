"""A batch that loses records keeps its offsets and whose it is; the records that stay are what they were."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.client.reading.records import FetchedBatch
from strandline.errors import CorruptMessage
from strandline.ids import TopicPartition
from strandline.records import (
    Codec,
    RecordFields,
    decode,
    emptied,
    encode_batch,
    gap_batch,
    keep_records,
    split,
    validate,
)
from tests.strandline.records.hostile_batches import timed

nullable = st.none() | st.binary(max_size=100)
record = st.tuples(
    nullable,
    nullable,
    st.lists(st.tuples(st.text(max_size=5), nullable), max_size=2).map(tuple),
    st.integers(0, 2**45),
)
kept = st.lists(st.tuples(record, st.booleans()), min_size=1, max_size=200).filter(
    lambda pairs: any(stays for _, stays in pairs)
)


@settings(deadline=None)
@given(kept, st.sampled_from(tuple(Codec)), st.none() | st.integers(0, 2**45))
def test_kept_records_are_unchanged(
    pairs: list[tuple[RecordFields, bool]], codec: Codec, horizon: int | None
) -> None:
    """KIP-534: offsets, times, keys, values and headers, here and for Kafka's client; a delete
    horizon moves no timestamp."""
    data = encode_batch(
        [fields for fields, _ in pairs], codec=codec, base_offset=7, leader_epoch=3, producer_id=5,
        producer_epoch=1, base_sequence=9,
    )  # fmt: skip
    (before,) = split(data)
    wanted = [stays for _, stays in pairs]
    expected = [r for r, stays in zip(decode(data), wanted, strict=True) if stays]
    newest = max(r.timestamp for r in expected)
    left = keep_records(data, before, wanted, max_timestamp=newest, delete_horizon_ms=horizon)
    assert decode(left) == expected
    (header,) = validate(left)
    assert header[1:2] + header[3:5] == before[1:2] + before[3:5]
    assert header.last_offset_delta == before.last_offset_delta
    assert header[10:13] == before[10:13]
    assert (header.codec, header.delete_horizon_ms) == (codec, horizon)
    assert (header.record_count, header.max_timestamp) == (len(expected), newest)
    theirs = DefaultRecordBatch(left)
    assert theirs.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value) for r in theirs] == [r[:4] for r in expected]


@pytest.mark.parametrize(
    ("base", "newest", "horizon"), [(-(2**63), 0, 1), (2**63 - 1, 0, -1), (0, 2**63, None), (0, 0, 2**63)]
)
def test_what_64_bits_do_not_reach_is_corrupt(base: int, newest: int, horizon: int | None) -> None:
    """CORRECTNESS X14: no error of numbers leaves it, which a caller does not expect."""
    data = timed(base, (0, None))
    with pytest.raises(CorruptMessage, match="batch at offset 0"):
        keep_records(data, split(data)[0], [True], max_timestamp=newest, delete_horizon_ms=horizon)


def test_a_batch_without_records_says_whose_it_was() -> None:
    data = encode_batch(
        [(b"k", b"v", (), 1)] * 3, codec=Codec.ZSTD, base_offset=7, leader_epoch=3, producer_id=5,
        producer_epoch=1, base_sequence=9,
    )  # fmt: skip
    (header,) = validate(emptied(split(data)[0]))
    assert (header.base_offset, header.next_offset, header.leader_epoch) == (7, 10, 3)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, 9)
    assert (header.record_count, header.is_gap, header.codec) == (0, False, Codec.NONE)
    assert decode(emptied(header)) == []


@pytest.mark.parametrize("length", [1, 2**31])
def test_a_gap_says_which_offsets_are_not_taken(length: int) -> None:
    (header,) = validate(gap_batch(5, 5 + length, 3))
    assert (header.base_offset, header.next_offset, header.leader_epoch) == (5, 5 + length, 3)
    assert header.is_gap


@pytest.mark.parametrize("start", range(6))
def test_a_consumer_reads_a_batch_with_gaps_from_any_offset(start: int) -> None:
    """Offsets 0, 3 and 5 are left of six: by records, by columns and by their number."""
    data = encode_batch([(b"k", b"%d" % number, (), number) for number in range(6)])
    wanted = [number in (0, 3, 5) for number in range(6)]
    left = keep_records(data, split(data)[0], wanted, max_timestamp=5)
    batch = FetchedBatch(TopicPartition("t", 0), split(left)[0], left, start)
    expected = [number for number in (0, 3, 5) if number >= start]
    assert [r.offset for r in batch.records()] == expected
    assert [r.value for r in batch.records()] == [b"%d" % number for number in expected]
    assert batch.columns().offsets == expected
    assert batch.record_count >= len(expected)
    assert batch.next_offset == 6
