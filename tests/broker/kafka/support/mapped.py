"""Messages as clients write and read them, as the values of the broker: by Kafka's names, from the table.

Which attribute holds a field, the table alone says. kio and kafka-python judge the rest: names, order, types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hypothesis import strategies as st

from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.apis import ApiWire
from strandline.broker.kafka.wire.table.rows import Array, Inline, Kind, One, Row, Struct
from tests.broker.kafka.support.kio_codec import SHORT_TEXT, Values

WIRES: Final[Mapping[int, ApiWire[Any, Any]]] = {
    wire.key: wire for wire in vars(apis).values() if isinstance(wire, ApiWire)
}
_NOTHING: Final = {"epoch": -1, "end_offset": -1}
_FIXED: Final[Mapping[ApiWire[Any, Any], Values]] = {
    apis.FETCH: {
        "records": st.binary(max_size=50),
        "diverging_epoch": _NOTHING,
        "snapshot_id": _NOTHING,
    },
    apis.OFFSET_FETCH: {"metadata": SHORT_TEXT},
}
"""What the broker never writes: null, or tagged fields of followers."""


def value_of(kind: Kind, found: Any, version: int) -> Any:
    """The value of a message or of a part of it."""
    match kind:
        case Array():
            return None if found is None else tuple(value_of(kind.of, each, version) for each in found)
        case One():
            return (value_of(kind.of, found, version),)
        case Inline():
            return value_of(kind.of, found, version)
        case Struct():
            return None if found is None else _struct(kind, found, version)
        case _:
            return found


def _struct(kind: Struct[Any], found: Any, version: int) -> Any:
    if not isinstance(found, dict):  # in the place of a structure with one field
        (only,) = kind.in_version(version)
        found = {only.name: found}
    attributes = {}
    for row in kind.in_version(version):
        if row.to is not None:
            value = value_of(row.kind, found[row.name] if row.name else found, version)
            attributes[row.to] = row.read(value) if row.read else value
    if kind.value is None:
        (only,) = attributes.values()
        return only
    names = kind.value._fields
    return kind.value(*[attributes[name] if name in attributes else kind.absent(name) for name in names])


def fixed(wire: ApiWire[Any, Any], version: int) -> Values:
    """The fields of answers that the broker always writes alike, by their paths."""
    return {**dict(_constants(wire.answer, version, "")), **_FIXED.get(wire, {})}


def _constants(kind: Kind, version: int, path: str) -> Iterator[tuple[str, Any]]:
    match kind:
        case Array() | One() | Inline():
            yield from _constants(kind.of, version, path)
        case Struct():
            for row in kind.in_version(version):
                yield from _constant(row, version, path)


def _constant(row: Row, version: int, path: str) -> Iterator[tuple[str, Any]]:
    if row.to is None:
        yield f"{path}{row.name}", list(row.constant) if row.constant == () else row.constant
    else:
        yield from _constants(row.kind, version, f"{path}{row.name}." if row.name else path)
