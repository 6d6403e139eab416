"""The client's end of the wire: requests by kio, and answers as kio and kafka-python read them.

How a new API is tested, in every version and both directions:

1. Declare it: a table of the request, one of the answer, and both in `strandline/broker/kafka/wire/apis.py`.
   The names of the fields are Kafka's; `python -m tests.broker.kafka.support.codec KEY VERSION` prints them.
2. `wire/test_messages.py` does the rest: what clients write is read, what is written is what clients read,
   and every truncation of a request is malformed. `mapped.py` makes the value of a message from the table. It
   has the fields of answers that the broker always writes alike, beside those that the table has as constant.
3. `make kafka-messages` compares the tables with Kafka's own definitions.

Tests of a running broker ask by `KafkaWire.ask`, with the fields that matter; others have their defaults.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping
from typing import Any, Final

from hypothesis import strategies as st

from tests.broker.kafka.support import kio_codec, python_codec
from tests.broker.kafka.support.kio_codec import Values

API_VERSIONS: Final = 18
ALIKE: Final = {"throttle_time_ms": 0}
"""Fields of every answer."""


def is_known(key: int, version: int) -> bool:
    """Whether a codec has this version. Later ones are tested by their bytes."""
    return version in kio_codec.versions(key) or python_codec.has(key, version)


# --- requests ---------------------------------------------------------------------------------


def encode_request(
    key: int, version: int, values: Mapping[str, Any], *, correlation_id: int = 1, client: str = "t"
) -> bytes:
    """A whole request, without the length before it."""
    name = client.encode()
    head = struct.pack(">hhih", key, version, correlation_id, len(name)) + name
    if version not in kio_codec.versions(key):
        return head + python_codec.encode(key, "request", version, values)
    kind = kio_codec.request_type(key, version)
    return head + (b"\0" if kind.__flexible__ else b"") + kio_codec.encode_body(kind, values)


def any_request(key: int, version: int) -> st.SearchStrategy[Values]:
    known = max(version, kio_codec.versions(key).start)
    found = kio_codec.any_values(kio_codec.request_type(key, known), {})
    return (
        found if known == version else found.map(lambda values: _of_version(key, "request", version, values))
    )


# --- answers ----------------------------------------------------------------------------------


def decode_answer(key: int, version: int, frame: bytes) -> tuple[int, Values]:
    """(correlation id, values) of a whole answer, without the length before it. Both codecs read the same."""
    correlation_id = int.from_bytes(frame[:4], "big")
    if version not in kio_codec.versions(key):
        return correlation_id, python_codec.decode(key, "response", version, frame[4:])
    second = None
    if python_codec.has(key, version):  # first, since it is the safer one
        body = frame[5:] if python_codec.flexible(key, version) and key != API_VERSIONS else frame[4:]
        second = python_codec.decode(key, "response", version, body)
    found = kio_codec.decode_answer(key, version, frame)
    assert second is None or _agree(found[1], second), f"kio: {found[1]}; kafka-python: {second}"
    return found


def any_answer(key: int, version: int, fixed: Mapping[str, Any]) -> st.SearchStrategy[Values]:
    known = max(version, kio_codec.versions(key).start)
    found = kio_codec.any_values(kio_codec.answer_type(key, known), {**ALIKE, **fixed})
    return (
        found if known == version else found.map(lambda values: _of_version(key, "response", version, values))
    )


def _of_version(key: int, kind: str, version: int, values: Values) -> Values:
    """The fields that an older version has."""
    return python_codec.decode(key, kind, version, python_codec.encode(key, kind, version, values))


def _agree(found: Any, second: Any) -> bool:
    """Bit fields are left out, which kafka-python has as sets under another name, and structures in tags that
    are not there, which it has as None."""
    if isinstance(found, dict):
        names = [name for name in found if not name.endswith("authorized_operations")]
        return second is None or all(_agree(found[name], second[name]) for name in names)
    if isinstance(found, list):
        return len(found) == len(second) and all(map(_agree, found, second))
    return bool(found == second)


# --- the names of the fields ------------------------------------------------------------------


def names(kind: type[Any], indent: int = 0) -> list[str]:
    """One line for each field."""
    lines = []
    for slot in kio_codec.slots(kind):
        marks = f"{'[]' if slot.array else ''}{' or null' if slot.nullable else ''}"
        lines.append(f"{' ' * indent}{slot.name}: {slot.field.metadata.get('kafka_type', 'struct')}{marks}")
        lines += [] if slot.kind else names(slot.entity, indent + 4)
    return lines


if __name__ == "__main__":
    key, version = map(int, sys.argv[1:])
    for found in (kio_codec.request_type(key, version), kio_codec.answer_type(key, version)):
        sys.stdout.write("\n".join([found.__name__, *names(found, 4), ""]))
