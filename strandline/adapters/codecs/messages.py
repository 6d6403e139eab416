"""Describes once how a value becomes a protobuf message and back, and builds both ends of an RPC from it.

A field that has the same name in the value and in the message is copied. Each other field has a `Part`, which
converts it. A name that the message lacks raises AttributeError while the codec is built, so at import.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from google.protobuf.message import Message

from strandline.adapters.rpc.reachable_address import endpoint_to_wire
from strandline.adapters.rpc.request_parsing import parse
from strandline.adapters.rpc.wire_errors import error_from_wire, error_to_wire, refuse
from strandline.errors import InvalidRequest, StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Listener, Method, Request, Response, Rpc
from strandline.rpc import common_pb2
from strandline.vocabulary.metadata import Endpoint

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class MessageCodec(Generic[Value]):
    """Converts one type of value to one kind of message, and back."""

    kind: type[Message]
    write: Callable[[Value, Listener], Message]
    """The listener is the one that the reader called: it decides which addresses the message names."""
    read: Callable[[Any], Value]


# --- fields -------------------------------------------------------------------------------------


class Part:
    """A field that the value and the message name alike: how it is written for a listener, and read."""

    def __init__(self, write: Callable[[Any, Listener], Any], read: Callable[[Any], Any]) -> None:
        self.write = write
        self.read = read

    def put(self, fields: dict[str, Any], name: str, value: Any, to: Listener) -> None:
        """Add it to the fields of a message."""
        fields[name] = self.write(value, to)

    def get(self, message: Any, name: str) -> Any:
        """The value of the field."""
        return self.read(getattr(message, name))


class _PartitionName(Part):
    """The name of a partition, which is two fields of a message."""

    def put(self, fields: dict[str, Any], name: str, value: TopicPartition, to: Listener) -> None:
        fields["topic"], fields["partition"] = value

    def get(self, message: Any, name: str) -> TopicPartition:
        return TopicPartition(message.topic, message.partition)


def same(value: Any, to: object = None) -> Any:
    """The value unchanged."""
    return value


def plain(write: Callable[[Any], Any], read: Callable[[Any], Any]) -> Part:
    """A field without addresses: every reader gets the same."""
    return Part(lambda value, to: write(value), read)


SCALAR: Final = Part(same, same)
SCALARS: Final = Part(same, tuple)
MAP: Final = Part(same, dict)
PARTITION: Final = _PartitionName(same, same)
OPTIONAL_TEXT: Final = plain(lambda text: text or "", lambda text: text or None)
"""None is the empty text."""
ERROR: Final = Part(lambda error, to: None if error is None else error_to_wire(error, to), error_from_wire)


def read_endpoint(message: common_pb2.Endpoint) -> Endpoint:
    """The address as the answer names it."""
    return Endpoint(message.id, message.host, message.port, message.rack)


ENDPOINT: Final = Part(endpoint_to_wire, read_endpoint)


def many(codec: MessageCodec[Any], check: Callable[[Sequence[Any]], Sequence[Any]] = same) -> Part:
    """A repeated message. `check` counts the elements before any is read, and raises InvalidRequest."""
    write, read = codec.write, codec.read
    return Part(
        lambda values, to: [write(value, to) for value in values],
        lambda messages: tuple([read(message) for message in check(messages)]),
    )


def scalars(check: Callable[[Sequence[Any]], Sequence[Any]]) -> Part:
    """A repeated scalar, with a check as in `many`."""
    return Part(same, lambda elements: tuple(check(elements)))


def at_most(count_max: int, what: str) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A check that there are not too many elements. Raises InvalidRequest."""

    def check(elements: Sequence[Any]) -> Sequence[Any]:
        check_count(len(elements), count_max, what)
        return elements

    return check


def check_count(count: int, count_max: int, what: str) -> None:
    """Raises InvalidRequest if there are too many elements in one request."""
    if count > count_max:
        raise InvalidRequest(
            f"{count} {what} in one request; send at most {count_max} at a time", limit=count_max
        )


# --- messages -----------------------------------------------------------------------------------


def shape(kind: type[Message], value: Callable[..., Value], /, **parts: Part) -> MessageCodec[Value]:
    """The codec of a dataclass."""
    names = [each.name for each in dataclasses.fields(value)]  # type: ignore[arg-type]  # a dataclass
    assert parts.keys() <= set(names), parts.keys() - set(names)
    each_part = [(name, parts.get(name) or _copied(kind, name)) for name in names]

    def write(of: Value, to: Listener) -> Message:
        fields: dict[str, Any] = {}
        for name, part in each_part:
            part.put(fields, name, getattr(of, name), to)
        return kind(**fields)

    def read(message: Any) -> Value:
        return value(*[part.get(message, name) for name, part in each_part])

    return MessageCodec(kind, write, read)


def only(kind: type[Message], name: str, part: Part | None = None) -> MessageCodec[Any]:
    """The codec of a message with one field: the value is the field's."""
    its_part = part or _copied(kind, name)

    def write(value: Any, to: Listener) -> Message:
        fields: dict[str, Any] = {}
        its_part.put(fields, name, value, to)
        return kind(**fields)

    return MessageCodec(kind, write, lambda message: its_part.get(message, name))


def nothing(kind: type[Message]) -> MessageCodec[None]:
    """The codec of a message that carries nothing, but perhaps an error."""
    return MessageCodec(kind, lambda _, to: kind(), lambda _: None)


def _copied(kind: type[Message], name: str) -> Part:
    empty = getattr(kind(), name)
    if isinstance(empty, int | float | str | bytes):
        return SCALAR
    return MAP if isinstance(empty, Mapping) else SCALARS


# --- RPCs ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Call(Method[Request, Response]):
    """Both ends of an RPC: the client's, and the server's in `served`."""

    served: Rpc[Request, Response]


def call(
    path: str,
    request: MessageCodec[Request],
    response: MessageCodec[Response],
    *,
    refuses_malformed: bool = False,
) -> Call[Request, Response]:
    """An RPC. An answer whose message has a field `error` can carry one: the client raises it.

    Equal values become equal bytes, also if they have maps.
    """

    carries_error = "error" in response.kind.DESCRIPTOR.fields_by_name

    def decode(data: bytes) -> Response:
        message: Any = response.kind.FromString(data)
        if carries_error:
            refuse(message.error)
        return response.read(message)

    def refusal(error: StrandlineError, to: Listener) -> bytes:
        return response.kind(error=error_to_wire(error, to)).SerializeToString()

    return Call(
        path,
        lambda value: request.write(value, Listener.INTERNAL).SerializeToString(deterministic=True),
        decode,
        Rpc(
            path,
            lambda data: request.read(parse(request.kind, data)),
            lambda value, to: response.write(value, to).SerializeToString(deterministic=True),
            refusal if carries_error else None,
            refuses_malformed,
        ),
    )
