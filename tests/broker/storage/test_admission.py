"""A leader refuses a batch that it can recognize as invalid without decompressing it, before it takes
offsets."""

from __future__ import annotations

import pytest

from strandline.broker.storage import admission
from strandline.broker.storage.admission import KEYED_RECORDS_MAX
from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.errors import CorruptMessage, InvalidRecord
from strandline.records import HEADER_BYTES, BatchHeader, Codec, decode_columns, encode_batch, encode_values
from strandline.records.header import assemble
from strandline.records.scan import BROKER_DECOMPRESSED_BYTES_MAX
from tests.strandline.records.hostile_batches import timed

BYTES_MAX = RECORDS_BYTES_MAX
CODECS = [codec for codec in Codec if codec is not Codec.NONE]


def claiming(count: int, data: bytes) -> bytes:
    """The same body under a header that claims this number of records, with the right CRC."""
    header = BatchHeader.parse(data)
    changed = header._replace(record_count=count, last_offset_delta=count - 1)
    return assemble(changed, data[HEADER_BYTES:])


@pytest.mark.parametrize("count", [2, 1_000, 2**31 - 1])
def test_a_plain_batch_that_claims_more_records_than_fit_is_refused(count: int) -> None:
    """61 bytes took 2^31 - 1 offsets, and a segment of their own."""
    empty = assemble(BatchHeader.parse(encode_values([b""], 0)), b"")
    for data in (empty, encode_values([b""], 0)):
        with pytest.raises(InvalidRecord, match=f"claims {count} records in .* of codec none"):
            admission.from_producer(claiming(count, data), bytes_max=BYTES_MAX)


@pytest.mark.parametrize("codec", CODECS)
def test_a_compressed_batch_is_accepted_up_to_a_ratio(codec: Codec) -> None:
    data = encode_values([b""] * 100, 0, codec=codec)
    body = len(data) - HEADER_BYTES
    with pytest.raises(InvalidRecord, match="are believed"):
        admission.from_producer(claiming(body * 5, data), bytes_max=BYTES_MAX)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("count", [1, 2, 100, 10_000])
def test_the_smallest_records_there_are_pass_in_every_codec(codec: Codec, count: int) -> None:
    """A correctly encoded batch is never refused."""
    header = admission.from_producer(encode_values([b""] * count, 0, codec=codec), bytes_max=BYTES_MAX)
    assert header.record_count == count


# --- compacted topics -----------------------------------------------------------------------------


def test_a_batch_that_decompresses_beyond_the_brokers_bound_is_refused() -> None:
    """6 KB became 64 MiB on the event loop."""
    data = encode_batch([(b"k", bytes(BROKER_DECOMPRESSED_BYTES_MAX), (), 0)], codec=Codec.ZSTD)
    assert len(data) < 10_000
    with pytest.raises(CorruptMessage, match="do not decompress to at most"):
        admission.from_producer(data, bytes_max=BYTES_MAX, keyed=True)


def test_more_records_than_a_leader_looks_at_are_refused_with_the_limit() -> None:
    data = encode_batch([(b"", b"", (), 0)] * (KEYED_RECORDS_MAX + 1), codec=Codec.ZSTD)
    with pytest.raises(InvalidRecord, match=f"send at most {KEYED_RECORDS_MAX}") as raised:
        admission.from_producer(data, bytes_max=BYTES_MAX, keyed=True)
    assert raised.value.limit == KEYED_RECORDS_MAX


@pytest.mark.parametrize(("base", "delta"), [(2**63 - 1, 1), (-(2**63), -1)])
def test_a_timestamp_that_does_not_fit_64_bits_is_refused(base: int, delta: int) -> None:
    """CORRECTNESS X14: compaction could not keep it."""
    data = timed(base, (0, b"v"), (delta, b"v"))
    with pytest.raises(InvalidRecord, match=f"record 1 of the batch has a timestamp of {base + delta} ms"):
        admission.from_producer(data, bytes_max=BYTES_MAX, keyed=True)


@pytest.mark.parametrize(
    "body", [b"\xff" * 50, bytes(50), b"\x0d" + bytes(6)], ids=["noise", "zeros", "negative"]
)
def test_records_that_are_none_are_refused(body: bytes) -> None:
    data = assemble(BatchHeader.parse(encode_values([b""], 0)), body)
    with pytest.raises(CorruptMessage, match="malformed"):
        admission.from_producer(data, bytes_max=BYTES_MAX, keyed=True)
    with pytest.raises(CorruptMessage):
        decode_columns(data, BatchHeader.parse(data))
