"""The header of 61 bytes before the records of a RecordBatch v2, and the broker's checks of it.

A broker never decodes the records, unless the topic is compacted: it checks sizes, magic and CRC,
and writes base offset and leader epoch, which precede the bytes that the CRC covers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import google_crc32c

from strandline.errors import CorruptMessage, InvalidRecord, MessageTooLarge, UnsupportedCompression
from strandline.records.compression import Codec

MAGIC: Final = 2
HEADER_BYTES: Final = 61
LENGTH_PREFIX_BYTES: Final = 12
"""Base offset and length, which `batch_length` does not count."""
STAMP_BYTES: Final = 16
"""Base offset, length and leader epoch: the only bytes that a broker writes in a batch."""
CRC_START: Final = 21
"""The CRC covers everything from the attributes to the end."""
_ATTRIBUTES_AT: Final = CRC_START + 1
"""Of their lower byte."""

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
STAMP: Final = struct.Struct(">qii")
AFTER_CRC: Final = struct.Struct(">hiqqqhii")

_CODEC_MASK: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
_DELETE_HORIZON: Final = 0x40
_BATCH_LENGTH_MIN: Final = HEADER_BYTES - LENGTH_PREFIX_BYTES

Bytes = bytes | bytearray | memoryview


class BatchHeader(NamedTuple):
    """One batch's header and its position in the buffer.

    It is a named tuple, because one is made for every batch that a broker handles, and making it is
    five times cheaper than a frozen dataclass.
    """

    position: int
    """Position of the batch's first byte in the buffer."""
    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @classmethod
    def parse(cls, data: Bytes, position: int = 0, start: int = 0) -> BatchHeader:
        """The header at a position, unchecked. Raises CorruptMessage if 61 bytes are not there.

        `start` is the position of the data in a larger buffer or file, to which the header's position refers.
        """
        if position < 0 or len(data) - position < HEADER_BYTES:
            raise CorruptMessage(
                f"batch at byte {position} is truncated: {len(data) - position} bytes, "
                f"its header alone has {HEADER_BYTES}"
            )
        return tuple.__new__(
            cls, (start + position, *HEADER.unpack_from(data, position))
        )  # as `cls` does, faster

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LENGTH_PREFIX_BYTES + self.batch_length

    @property
    def end(self) -> int:
        """Position after the batch."""
        return self.position + LENGTH_PREFIX_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset of the first record after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        """Raises UnsupportedCompression for an unknown number."""
        number = self.attributes & _CODEC_MASK
        try:
            return Codec(number)
        except ValueError:
            raise UnsupportedCompression(
                f"batch at offset {self.base_offset} has codec {number}; known are 0 to {max(Codec)}"
            ) from None

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_gap(self) -> bool:
        """True if the batch only marks offsets that compaction left without records."""
        return self.record_count == 0 and self.producer_id < 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the tombstones of this batch may be removed (KIP-534); None: compaction has not
        reached them yet.

        It replaces the base timestamp, and the records' timestamps are relative to it.
        """
        return self.base_timestamp if self.attributes & _DELETE_HORIZON else None

    def with_codec(self, codec: Codec) -> BatchHeader:
        return self._replace(attributes=self.attributes & ~_CODEC_MASK | codec)

    def with_delete_horizon(self, moment_ms: int) -> BatchHeader:
        return self._replace(attributes=self.attributes | _DELETE_HORIZON, base_timestamp=moment_ms)


def in_transaction(batch: Bytes) -> bool:
    """Whether a batch says that it is in a transaction. Nothing else of its header is read."""
    return len(batch) > _ATTRIBUTES_AT and bool(batch[_ATTRIBUTES_AT] & TRANSACTIONAL)


def split(records: Bytes) -> list[BatchHeader]:
    """The headers of consecutive batches. Sizes and magic are checked, CRCs are not.

    Raises CorruptMessage if the bytes are not a whole number of batches.
    """
    return list(iterate(records))


def iterate(records: Bytes) -> Iterator[BatchHeader]:
    """As `split`, lazily: batches before a damaged one are still yielded."""
    position, end = 0, len(records)
    while position < end:
        header = BatchHeader.parse(records, position)
        length = header.batch_length
        if header.magic != MAGIC:
            raise CorruptMessage(f"batch at byte {position} has magic {header.magic}, wanted {MAGIC}")
        if length < _BATCH_LENGTH_MIN:
            raise CorruptMessage(
                f"batch at byte {position} has length {length}, the least is {_BATCH_LENGTH_MIN}"
            )
        if position + LENGTH_PREFIX_BYTES + length > end:
            raise CorruptMessage(
                f"batch at byte {position} is truncated: {LENGTH_PREFIX_BYTES + length} bytes, "
                f"{end - position} are there"
            )
        yield header
        position += LENGTH_PREFIX_BYTES + length


def crc_of(records: Bytes, header: BatchHeader, start: int = 0) -> int:
    """CRC-32C of a batch's bytes, from its attributes to its end. `start`: as for `BatchHeader.parse`."""
    position = header.position - start
    crc: int = google_crc32c.value(
        bytes(records[position + CRC_START : position + LENGTH_PREFIX_BYTES + header.batch_length])
    )
    return crc


def validate(records: Bytes, *, bytes_max: int | None = None) -> list[BatchHeader]:
    """Split, and check everything that can be checked without decoding records.

    `bytes_max` limits each batch. Raises CorruptMessage (size, magic, CRC), MessageTooLarge,
    InvalidRecord (a header that contradicts itself), UnsupportedCompression; each names the values.
    """
    headers = split(records)
    if not headers:
        raise CorruptMessage("no batch at all: the records are empty")
    for header in headers:
        if bytes_max is not None and header.size > bytes_max:
            raise MessageTooLarge(
                f"batch of {header.size} bytes is larger than max.message.bytes = {bytes_max}",
                limit=bytes_max,
            )
        crc = crc_of(records, header)
        if crc != header.crc:
            raise CorruptMessage(
                f"batch at byte {header.position} (offset {header.base_offset}, {header.size} bytes) "
                f"has CRC {header.crc:#010x}, its bytes have {crc:#010x}"
            )
        check_consistent(header)
    return headers


def check_consistent(header: BatchHeader) -> None:
    """Raises InvalidRecord or UnsupportedCompression if the header's fields contradict each other.

    A batch that was compacted has fewer records than offsets, or none.
    """
    if header.last_offset_delta < 0 or not 0 <= header.record_count <= header.last_offset_delta + 1:
        raise InvalidRecord(
            f"batch at byte {header.position} claims {header.record_count} records "
            f"but its last offset delta is {header.last_offset_delta}"
        )
    if header.attributes & _CODEC_MASK > Codec.ZSTD:
        _ = header.codec
    if header.producer_id < 0:
        return
    # Brokers write markers, and offsets of groups in a transaction, without a sequence.
    least = -1 if header.is_transactional else 0
    if header.producer_epoch < 0 or header.base_sequence < least:
        raise InvalidRecord(
            f"batch of producer {header.producer_id} has epoch {header.producer_epoch} "
            f"and base sequence {header.base_sequence}; both must be at least 0"
        )


def assemble(header: BatchHeader, body: Bytes) -> bytes:
    """A whole batch from its fields and its encoded and compressed records; length and CRC are computed."""
    covered = AFTER_CRC.pack(*header[6:])
    crc = google_crc32c.extend(google_crc32c.value(covered), bytes(body))
    length = HEADER_BYTES - LENGTH_PREFIX_BYTES + len(body)
    head = HEADER.pack(header.base_offset, length, header.leader_epoch, MAGIC, crc, *header[6:])
    return head + body


def with_append_time(records: Bytes, header: BatchHeader, now_ms: int) -> bytes:
    """The one batch, with this time for all of its records: LogAppendTime."""
    stamped = header._replace(attributes=header.attributes | _LOG_APPEND_TIME, max_timestamp=now_ms)
    return assemble(stamped, records[header.position + HEADER_BYTES : header.end])


def stamp(header: BatchHeader, *, base_offset: int, leader_epoch: int) -> bytes:
    """The batch's first 16 bytes with another base offset and leader epoch.

    Written before `records[header.position + 16 : header.end]` it is the same batch at its new
    offsets: the CRC covers neither field, so nothing is copied and nothing recomputed.
    """
    return STAMP.pack(base_offset, header.batch_length, leader_epoch)
