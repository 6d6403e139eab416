"""Kafka's RecordBatch v2 as bytes: validation, stamping, encoding and decoding (KIP-98,
KIP-82).

A batch is a header of 61 bytes followed by its records, compressed as a whole. All functions are
pure.
"""

from __future__ import annotations

from strandline.records.compression import Codec
from strandline.records.decode import (
    Columns,
    Record,
    RecordHeaders,
    decode,
    decode_batch,
    decode_columns,
    decode_in_parts,
    decode_lazily,
)
from strandline.records.encode import (
    Headers,
    PackedRecords,
    RecordFields,
    encode_batch,
    encode_values,
    pack,
    pack_values,
    pack_within,
)
from strandline.records.filter import emptied, gap_batch, keep_records, without_transaction
from strandline.records.header import (
    HEADER_BYTES,
    STAMP_BYTES,
    BatchHeader,
    iterate,
    split,
    stamp,
    validate,
    with_append_time,
)

__all__ = [
    "HEADER_BYTES",
    "STAMP_BYTES",
    "BatchHeader",
    "Codec",
    "Columns",
    "Headers",
    "PackedRecords",
    "Record",
    "RecordFields",
    "RecordHeaders",
    "decode",
    "decode_batch",
    "decode_columns",
    "decode_in_parts",
    "decode_lazily",
    "emptied",
    "encode_batch",
    "encode_values",
    "gap_batch",
    "iterate",
    "keep_records",
    "pack",
    "pack_values",
    "pack_within",
    "split",
    "stamp",
    "validate",
    "with_append_time",
    "without_transaction",
]
