"""The APIs that the client speaks, each in its last plain version that clients use and in a flexible one."""

from __future__ import annotations

import struct
from typing import Any, Final, Generic, NamedTuple, TypeVar

from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.apis import ApiWire
from strandline.broker.kafka.wire.fields import Part, Reader, Writer

Request = TypeVar("Request")
Answer = TypeVar("Answer")

_HEADER: Final = struct.Struct(">hhi")


class Api(NamedTuple, Generic[Request, Answer]):
    wire: ApiWire[Request, Answer]
    plain: int
    flexible: int

    def version(self, *, flexible: bool) -> int:
        return self.flexible if flexible else self.plain


def only(wire: ApiWire[Request, Answer], version: int) -> Api[Request, Answer]:
    """An API that a client speaks in this version only."""
    return Api(wire, version, version)


def frame(
    wire: ApiWire[Request, Any], version: int, request: Request, correlation: int, client: str
) -> bytes:
    """A whole request: length, header, body."""
    header, body = Writer(), Writer(flexible=wire.flexible(version))
    header.numbers(_HEADER, wire.key, version, correlation)
    header.string(client)
    if body.flexible:
        body.tags(())
    wire.write_request(body, request, version)
    whole = b"".join([*header.parts(), *body.parts()])
    return len(whole).to_bytes(4, "big") + whole


def answer_in(wire: ApiWire[Any, Answer], version: int, data: Part) -> Answer:
    """The answer in a frame, behind its correlation id. Raises MalformedRequest."""
    reader = Reader(data, flexible=wire.flexible(version))
    reader.int32()
    reader.tags()
    return wire.read_answer(reader, version)


PRODUCE: Final = Api(apis.PRODUCE, 7, 9)
FETCH: Final = Api(apis.FETCH, 11, 12)
METADATA: Final = Api(apis.METADATA, 8, 9)
OFFSET_COMMIT: Final = Api(apis.OFFSET_COMMIT, 7, 8)
OFFSET_FETCH: Final = Api(apis.OFFSET_FETCH, 5, 7)
FIND_COORDINATOR: Final = Api(apis.FIND_COORDINATOR, 2, 3)
LIST_OFFSETS: Final = Api(apis.LIST_OFFSETS, 5, 6)
DELETE_RECORDS: Final = Api(apis.DELETE_RECORDS, 1, 2)
JOIN_GROUP: Final = Api(apis.JOIN_GROUP, 5, 7)
HEARTBEAT: Final = Api(apis.HEARTBEAT, 3, 4)
LEAVE_GROUP: Final = Api(apis.LEAVE_GROUP, 3, 4)
SYNC_GROUP: Final = Api(apis.SYNC_GROUP, 3, 5)
INIT_PRODUCER_ID: Final = Api(apis.INIT_PRODUCER_ID, 1, 2)
OFFSET_FOR_LEADER_EPOCH: Final = Api(apis.OFFSET_FOR_LEADER_EPOCH, 3, 4)
