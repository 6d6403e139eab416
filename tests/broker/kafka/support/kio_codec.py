"""Messages of Kafka's protocol by kio, whose classes have the fields of every version.

A message is a dict with Kafka's own names of the fields, and plain values: numbers (also for times and error
codes), hexadecimal digits for ids, lists, and dicts for structures.

kio decodes only what this repository wrote: it takes memory before it looks, so a length that is a lie can
end the process.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from types import NoneType
from typing import Any, Final, NamedTuple, get_args, get_origin
from uuid import UUID

from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer

Values = dict[str, Any]

NO_ID: Final = "0" * 32
MILLISECOND: Final = timedelta(milliseconds=1)
SHORT_TEXT: Final = st.text(st.characters(codec="utf-8"), max_size=8)
ELEMENTS_MAX: Final = 3
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


class Kind(NamedTuple):
    """A primitive type: any plain value, the one where a test gives none, and the way to kio's value."""

    any: st.SearchStrategy[Any]
    zero: Any
    to_kio: Callable[[Any], Any] = lambda value: value


KINDS: Final = {
    "bool": Kind(st.booleans(), False),
    "int8": Kind(_integers(8), 0),
    "int16": Kind(_integers(16), 0),
    "uint16": Kind(st.integers(0, 2**16 - 1), 0),
    "int32": Kind(_integers(32), 0),
    "int64": Kind(_integers(64), 0),
    "string": Kind(SHORT_TEXT, ""),
    "bytes": Kind(st.binary(max_size=40), b""),
    "records": Kind(st.binary(max_size=40), b""),
    "uuid": Kind(st.binary(min_size=16, max_size=16).map(bytes.hex), NO_ID, UUID),
    "error_code": Kind(st.sampled_from([int(code) for code in ErrorCode]), 0, ErrorCode),
    "timedelta_i32": Kind(_integers(32), 0, lambda value: value * MILLISECOND),
    "float64": Kind(st.floats(allow_nan=False), 0.0),
    "timedelta_i64": Kind(_integers(40), 0, lambda value: value * MILLISECOND),
    "datetime_i64": Kind(
        st.integers(0, 2**32).map(lambda second: second * 1_000),
        0,
        lambda value: _EPOCH + value * MILLISECOND,
    ),
}


_RENAMED: Final = {("TxnOffsetCommitRequest", "generation_id"): "generation_id_or_member_epoch"}
"""Fields that have another name in later definitions than kio's."""


class Slot(NamedTuple):
    """One field of a message. It has a `kind`, or it is a structure of type `entity`."""

    field: Field[Any]
    name: str
    nullable: bool
    array: bool
    kind: Kind | None
    entity: type[Any]


_SLOTS: Final[dict[type[Any], tuple[Slot, ...]]] = {}


def slots(entity: type[Any]) -> tuple[Slot, ...]:
    if entity not in _SLOTS:
        _SLOTS[entity] = tuple(_slot(entity, field) for field in fields(entity))
    return _SLOTS[entity]


def _slot(owner: type[Any], field: Field[Any]) -> Slot:
    inner: Any = field.type
    nullable = NoneType in get_args(inner)
    if nullable:
        (inner,) = [each for each in get_args(inner) if each is not NoneType]
    array = get_origin(inner) is tuple
    if array:
        inner = get_args(inner)[0]
    if is_dataclass(inner):
        return Slot(field, field.name, nullable, array, None, inner)  # type: ignore[arg-type]
    kind = field.metadata["kafka_type"]
    name = _RENAMED.get((owner.__name__, field.name), field.name)
    name = f"{name}_ms" if kind.startswith(("timedelta", "datetime")) else name
    return Slot(field, name, nullable, array, KINDS[kind], inner)


# --- between plain values and kio's -----------------------------------------------------------


def plain(value: Any) -> Any:
    """The plain form of kio's value."""
    match value:
        case ErrorCode():
            return int(value)
        case timedelta():
            return value // MILLISECOND
        case datetime():
            return (value - _EPOCH) // MILLISECOND
        case UUID():
            return value.hex
        case tuple():
            return [plain(each) for each in value]
        case _ if is_dataclass(value):
            return {
                slot.name: _plain_field(slot, getattr(value, slot.field.name)) for slot in slots(type(value))
            }
        case _:
            return value


def _plain_field(slot: Slot, value: Any) -> Any:
    if value is None and slot.kind in (KINDS["uuid"], KINDS["datetime_i64"]):
        return NO_ID if slot.kind is KINDS["uuid"] else -1
    return plain(value)


def entity(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """kio's form of plain values. A field that is not given has Kafka's default, or its type's zero."""
    found = slots(kind)
    unknown = values.keys() - {slot.name for slot in found}
    assert not unknown, f"{kind.__name__} {kind.__version__} has no {', '.join(sorted(unknown))}"
    return kind(**{slot.field.name: _kio_field(slot, values) for slot in found})


def _kio_field(slot: Slot, values: Mapping[str, Any]) -> Any:
    if slot.name not in values:
        if slot.field.default is not MISSING:
            return slot.field.default
        value = None if slot.nullable else [] if slot.array else slot.kind.zero if slot.kind else {}
    else:
        value = values[slot.name]
    if value is None or (value == -1 and slot.kind is KINDS["datetime_i64"]):
        return None
    make = slot.kind.to_kio if slot.kind else lambda each: entity(slot.entity, each)
    return tuple(map(make, value)) if slot.array else make(value)


# --- messages ---------------------------------------------------------------------------------


def versions(key: int) -> range:
    """Those that kio has."""
    found = schema_name_map[api_key_map[key]]
    return range(min(found), max(found) + 1)


def request_type(key: int, version: int) -> type[Any]:
    found: type[Any] = load_request_schema(key, version)
    return found


def answer_type(key: int, version: int) -> type[Any]:
    found: type[Any] = load_response_schema(key, version)
    return found


def encode_body(kind: type[Any], values: Mapping[str, Any]) -> bytes:
    with io.BytesIO() as out:
        entity_writer(kind)(out, entity(kind, values))
        return out.getvalue()


def decode_answer(key: int, version: int, frame: bytes) -> tuple[int, Values]:
    """(correlation id, values) of a whole answer, without the length before it."""
    kind = answer_type(key, version)
    header, size = entity_reader(kind.__header_schema__)(frame, 0)
    found, more = entity_reader(kind)(frame, size)
    assert size + more == len(frame), f"{kind.__name__} {version}: {len(frame) - size - more} bytes too many"
    return header.correlation_id, plain(found)


# --- any values -------------------------------------------------------------------------------


def any_values(kind: type[Any], fixed: Mapping[str, Any], path: str = "") -> st.SearchStrategy[Values]:
    """Any message. `fixed` has the values of some fields, or strategies for them, by the name of the field or
    by its path (`topics.name`)."""

    def one(slot: Slot) -> st.SearchStrategy[Any]:
        whole = f"{path}{slot.name}"
        for name in (whole, slot.name):
            if name in fixed:
                value = fixed[name]
                return value if isinstance(value, st.SearchStrategy) else st.just(value)
        found = slot.kind.any if slot.kind else any_values(slot.entity, fixed, f"{whole}.")
        if slot.array:
            found = st.lists(found, max_size=ELEMENTS_MAX)
        if slot.kind in (KINDS["uuid"], KINDS["datetime_i64"]):
            return found  # its null is a number
        return found | st.none() if slot.nullable else found

    return st.fixed_dictionaries({slot.name: one(slot) for slot in slots(kind)})
