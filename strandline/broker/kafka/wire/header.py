"""The headers of requests and answers."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fields import Part, Reader, Writer

_HEADER: Final = struct.Struct(">hhi")
_ANSWER: Final = struct.Struct(">ii")
_CORRELATION_ID_BYTES: Final = 4
_NO_TAGS: Final = bytes(1)

API_VERSIONS: Final = 18
"""The one API whose answers have a header of version 0 always: a client reads them before it knows more."""


class RequestHeader(NamedTuple):
    """The first fields of a request, which all versions of all APIs have."""

    api: int
    version: int
    correlation_id: int
    client_id: str
    """The client's own name; empty if it gave none."""


def read_header(reader: Reader) -> RequestHeader:
    """Reads up to the client id. In flexible versions, tags follow: `reader.tags()` once it is known."""
    api, version, correlation_id = reader.numbers(_HEADER)
    return RequestHeader(api, version, correlation_id, reader.nullable_string() or "")


def frame(header: RequestHeader, body: Writer) -> list[Part]:
    """The parts of a whole answer: length and header, body."""
    parts = body.parts()
    tags = _NO_TAGS if body.flexible and header.api != API_VERSIONS else b""
    size = _CORRELATION_ID_BYTES + len(tags) + sum(map(len, parts))
    return [_ANSWER.pack(size, header.correlation_id) + tags, *parts]
