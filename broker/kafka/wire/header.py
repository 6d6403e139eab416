"""The headers of requests and answers."""

from __future__ import annotations

from typing import NamedTuple

from strandline.broker.kafka.wire.fields import Part, Reader, Writer

API_VERSIONS = 18
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
    api, version, correlation_id = reader.int16(), reader.int16(), reader.int32()
    return RequestHeader(api, version, correlation_id, reader.nullable_string() or "")


def frame(header: RequestHeader, body: Writer) -> list[Part]:
    """The parts of a whole answer: length, header, body."""
    parts = body.parts()
    head = Writer(flexible=body.flexible and header.api != API_VERSIONS)
    head.int32(header.correlation_id)
    head.tags()
    (after,) = head.parts()
    size = Writer()
    size.int32(len(after) + sum(map(len, parts)))
    return [*size.parts(), after, *parts]
