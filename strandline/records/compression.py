"""The five codecs of a RecordBatch v2 in the framings that Kafka uses.

gzip, lz4 (frame format, independent blocks) and zstd are one stream. snappy is written in blocks
with the framing of the xerial library, and read with or without it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

import cramjam

from strandline.config.limits import DECOMPRESSED_BYTES_MAX
from strandline.errors import CorruptMessage, UnsupportedCompression


class Codec(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def named(cls, name: str) -> Codec:
        """The codec for a setting. Raises UnsupportedCompression that lists the known names."""
        try:
            return cls[name.upper()]
        except KeyError:
            known = ", ".join(codec.name.lower() for codec in cls)
            raise UnsupportedCompression(f"no codec is named {name!r}; known are {known}") from None


_XERIAL_HEADER: Final = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_ZSTD_LEVEL: Final = 1
_LZ4_LEVEL: Final = 1
"""The fast compressor; the library's default is a slower one."""
_GZIP_LEVEL: Final = 6
_FIRST_GUESS_BYTES: Final = 64 * 1024
_GROWTH: Final = 4

_STREAMS: Final[dict[Codec, Any]] = {
    Codec.GZIP: cramjam.gzip,
    Codec.LZ4: cramjam.lz4,
    Codec.ZSTD: cramjam.zstd,
}


def compress(codec: Codec, data: bytes, level: int | None = None) -> bytes:
    """Compress with a codec; `Codec.NONE` leaves the data unchanged. `level`: of the codec, if it has any."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, level=_GZIP_LEVEL if level is None else level))
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            # Kafka's own reader refuses blocks that refer to earlier ones.
            stream = cramjam.lz4.Compressor(level=_LZ4_LEVEL if level is None else level, block_linked=False)
            stream.compress(data)
            return bytes(stream.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL if level is None else level))


def decompress(codec: Codec, data: bytes, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The inverse of `compress`.

    Raises CorruptMessage if the data is damaged or would expand beyond `bytes_max`: a few hundred
    bytes can claim gigabytes, so the claimed size is never allocated unchecked.
    """
    match codec:
        case Codec.NONE:
            return data
        case Codec.SNAPPY:
            return _decompress_snappy(data, bytes_max)
        case _:
            return _decompress_stream(codec, data, bytes_max)


def _decompress_stream(codec: Codec, data: bytes, bytes_max: int) -> bytes:
    guess = min(bytes_max, max(_FIRST_GUESS_BYTES, _GROWTH * len(data)))
    while True:
        out = bytearray(guess)
        try:
            size = _STREAMS[codec].decompress_into(data, out)
        except cramjam.DecompressionError as error:
            # The library has one exception for "damaged" and "does not fit"; only at the limit does
            # the difference not matter.
            if guess == bytes_max:
                raise CorruptMessage(
                    f"{len(data)} bytes of {codec.name.lower()} do not decompress to at most "
                    f"{bytes_max} bytes: {error}",
                    limit=bytes_max,
                ) from None
            guess = min(bytes_max, guess * _GROWTH)
        else:
            return bytes(memoryview(out)[:size])


def _compress_xerial(data: bytes) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(len(block).to_bytes(4, "big"))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: bytes, bytes_max: int) -> bytes:
    if not data.startswith(_XERIAL_HEADER[:8]):
        return _decompress_snappy_block(data, 0, bytes_max)
    parts: list[bytes] = []
    total, position = 0, len(_XERIAL_HEADER)
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big", signed=True)
        position += 4
        if not 0 < size <= len(data) - position:
            raise CorruptMessage(
                f"snappy block of {size} bytes at byte {position} of {len(data)} runs past the end"
            )
        parts.append(_decompress_snappy_block(data[position : position + size], total, bytes_max))
        total += len(parts[-1])
        position += size
    return b"".join(parts)


def _decompress_snappy_block(block: bytes, before: int, bytes_max: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if before + size > bytes_max:
            raise CorruptMessage(
                f"snappy block claims {size} bytes after {before}; {bytes_max} are allowed", limit=bytes_max
            )
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptMessage(f"{len(block)} bytes of snappy do not decompress: {error}") from None
