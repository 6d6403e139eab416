"""Messages of Kafka's protocol by kafka-python: a second opinion, and the only one on versions that Kafka 4
has given up. Its values are those of `kio_codec`, and its decoder raises where kio's ends the process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any
from uuid import UUID

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
import kafka.protocol.sasl
from kafka.protocol.api_message import ApiMessage

from tests.broker.kafka.support.kio_codec import NO_ID, Values

PACKAGES = (
    kafka.protocol.admin,
    kafka.protocol.consumer,
    kafka.protocol.metadata,
    kafka.protocol.producer,
    kafka.protocol.sasl,
)


@cache
def _types() -> dict[tuple[int, str], Any]:
    found: list[Any] = [each for package in PACKAGES for each in vars(package).values()]
    messages: list[Any] = [
        each
        for each in found
        if isinstance(each, type) and issubclass(each, ApiMessage) and each is not ApiMessage
    ]
    return {(each.API_KEY, each.type): each for each in messages if each.__name__ == each.name}


def has(key: int, version: int) -> bool:
    found = _types().get((key, "response"))
    return found is not None and version <= found.max_version


def encode(key: int, kind: str, version: int, values: Mapping[str, Any]) -> bytes:
    """The body of a message; `kind`: `request` or `response`."""
    found = _types()[key, kind]
    flexible = found.flexible_version_q(version)
    encoded: bytes = found._struct.encode(values, version=version, compact=flexible, tagged=flexible)
    return encoded


def decode(key: int, kind: str, version: int, body: bytes) -> Values:
    found = ApiMessage.decode.__func__(_types()[key, kind], body, version=version)
    plain: Values = _plain(found.to_dict(json=False))
    return plain


def flexible(key: int, version: int) -> bool:
    found: bool = _types()[key, "request"].flexible_version_q(version)
    return found


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {
                name: NO_ID if name == "topic_id" and each is None else _plain(each)
                for name, each in value.items()
            }
        case list() | tuple():
            return [_plain(each) for each in value]
        case UUID():
            return value.hex
        case memoryview() | bytearray():
            return bytes(value)
        case _:
            return value
