"""Gives a batch another codec. Its records are decompressed and compressed, and none is decoded."""

from __future__ import annotations

from strandline.records.compression import Codec, compress
from strandline.records.decode import body_of
from strandline.records.header import Bytes, assemble, validate
from strandline.records.scan import BROKER_DECOMPRESSED_BYTES_MAX


def recompressed(records: Bytes, codec: Codec, *, level: int | None = None, bytes_max: int) -> bytes:
    """The one batch of these records with that codec; unchanged if it has it, or if there is not one alone.

    `bytes_max`: of the batch as it came. Raises as `validate`, and CorruptMessage if its records do not
    decompress to BROKER_DECOMPRESSED_BYTES_MAX at most.
    """
    header, *others = validate(records, bytes_max=bytes_max)
    if others or header.codec is codec:
        return bytes(records)
    body = body_of(records, header, bytes_max=BROKER_DECOMPRESSED_BYTES_MAX)
    return assemble(header.with_codec(codec), compress(codec, body, level))
