"""A batch with another codec has the same records, offsets and producer."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from strandline.config.limits import MIB
from strandline.errors import CorruptMessage, MessageTooLarge
from strandline.records import BatchHeader, Codec, decode, encode_batch, validate
from strandline.records.compression import compress
from strandline.records.header import assemble
from strandline.records.recompress import recompressed
from strandline.records.scan import BROKER_DECOMPRESSED_BYTES_MAX

FIELDS = [(b"key", b"value" * 100, (("h", b"1"),), 1_700_000_000_000 + n) for n in range(50)]


@pytest.mark.parametrize(("before", "after"), list(product(Codec, Codec)))
def test_records_and_header_stay(before: Codec, after: Codec) -> None:
    batch = encode_batch(FIELDS, codec=before, producer_id=7, producer_epoch=1, base_sequence=5)
    anew = recompressed(batch, after, bytes_max=MIB)
    (was,), (header,) = validate(batch), validate(anew)
    assert header.codec is after
    assert decode(anew) == decode(batch)
    kept = was._replace(batch_length=header.batch_length, crc=header.crc, attributes=header.attributes)
    assert header == kept
    assert (anew == batch) == (before is after)


@pytest.mark.parametrize(
    ("codec", "level", "other"), [(Codec.GZIP, 9, 1), (Codec.ZSTD, 19, 1), (Codec.GZIP, None, 1)]
)
def test_a_level_is_the_codecs(codec: Codec, level: int | None, other: int) -> None:
    words = [bytes(Random(n).choices(b"abcdefgh", k=n % 7 + 2)) for n in range(100)]
    varied = [(None, b" ".join(Random(n).choices(words, k=20)), (), n) for n in range(2_000)]
    batch = encode_batch(varied)
    small, large = (recompressed(batch, codec, level=each, bytes_max=MIB) for each in (level, other))
    assert len(small) < len(large) < len(batch)
    assert decode(small) == decode(large) == decode(batch)


def test_what_is_no_single_batch_of_its_size_is_left_or_refused() -> None:
    batch = encode_batch(FIELDS)
    assert recompressed(batch * 2, Codec.ZSTD, bytes_max=MIB) == batch * 2
    with pytest.raises(MessageTooLarge, match=r"max\.message\.bytes = 100$"):
        recompressed(batch, Codec.ZSTD, bytes_max=100)
    with pytest.raises(CorruptMessage, match="CRC"):
        recompressed(batch[:-1] + bytes([batch[-1] ^ 1]), Codec.ZSTD, bytes_max=MIB)


def test_records_that_do_not_decompress_within_the_bound_are_refused() -> None:
    """A small batch that claims gigabytes costs no more than the bound."""
    header = BatchHeader.parse(encode_batch(FIELDS, codec=Codec.GZIP))
    bomb = assemble(header, compress(Codec.GZIP, bytes(BROKER_DECOMPRESSED_BYTES_MAX + 1)))
    for broken in (bomb, assemble(header, b"no gzip")):
        with pytest.raises(CorruptMessage, match="do not decompress"):
            recompressed(broken, Codec.NONE, bytes_max=MIB)
