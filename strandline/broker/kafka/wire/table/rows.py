"""The declaration of a message: one row for each field, in the order of the wire.

A row has the field's name in Kafka's definitions, its type, and the versions that have it. From the rows come
both directions of requests and answers (`compiled.py`), and what Kafka's own definitions are compared with.
The values are named tuples: a row says which attribute holds its field.

A version without a field leaves the attribute at its default. None in a version whose field cannot be null is
written as the empty value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import calcsize
from typing import Any, Final, Generic, TypeVar

Value = TypeVar("Value")

NEVER: Final = 2**15
"""As a version: none."""
TAGS_BYTES_MIN: Final = 1


class _Named:
    """A type makes a row when it is called."""

    __slots__ = ()

    def __call__(self, name: str, to: str | None = None, **more: Any) -> Row:
        return row(name, self, to, **more)  # type: ignore[arg-type]  # its subclasses are kinds


@dataclass(frozen=True, slots=True)
class Primitive(_Named):
    """`read` and `write` are the methods of Reader and Writer. The last two are the fewest bytes of a value:
    in plain and in flexible versions."""

    kafka: str
    read: str
    write: str
    plain_bytes_min: int
    compact_bytes_min: int
    empty: str | None = None
    """The source of what is written for None, where null is not allowed."""


@dataclass(frozen=True, slots=True)
class Number(_Named):
    """`code`: its format in `struct`. Neighbours are read and written together."""

    kafka: str
    read: str
    code: str

    @property
    def size_bytes(self) -> int:
        return calcsize(f">{self.code}")


INT8: Final = Number("int8", "int8", "b")
INT16: Final = Number("int16", "int16", "h")
INT32: Final = Number("int32", "int32", "i")
INT64: Final = Number("int64", "int64", "q")
FLOAT64: Final = Number("float64", "float64", "d")
BOOL: Final = Number("bool", "boolean", "?")
UUID: Final = Primitive("uuid", "uuid", "uuid", 16, 16)
STRING: Final = Primitive("string", "string", "string", 2, 1, '""')
BYTES: Final = Primitive("bytes", "blob", "blob", 4, 1, 'b""')
PART: Final = Primitive("bytes", "part", "blob", 4, 1)
"""Bytes that are read as a part of the frame, without a copy."""
RECORDS: Final = Primitive("records", "part", "records", 4, 1)
"""Record batches, which are read as a part of the frame and written as a part of their own."""


@dataclass(frozen=True, slots=True)
class Array:
    """A tuple. A `large` one is written in steps: only memory bounds its elements."""

    of: Kind
    large: bool = False


@dataclass(frozen=True, slots=True)
class One:
    """A tuple of one element, in versions that have no array of them."""

    of: Kind


@dataclass(frozen=True, slots=True)
class Inline:
    """The fields of a value, which are no structure of their own in the message."""

    of: Struct[Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One field in the versions `since` to `until`, both included.

    `to`: the attribute, or None for a field that is ignored by readers and always has the same value."""

    name: str
    kind: Kind
    to: str | None
    since: int
    until: int
    nullable: int = NEVER
    """The first version in which it may be null. A structure then has a number before it."""
    tag: int | None = None
    """The number of a tagged field. One that is None, zero or empty is not written."""
    constant: Any = None
    throttle: bool = False
    """It says how long the client waits for its quota: the writer knows."""
    absent: Any = NEVER
    """The attribute in versions without the field, if that is not its default."""
    read: Callable[[Any], Any] | None = None
    """Makes the attribute of the field."""
    write: Callable[[Any], Any] | None = None
    """Makes the field of the whole value."""

    def in_version(self, version: int) -> bool:
        return self.since <= version <= self.until

    def may_be_null(self, version: int) -> bool:
        return self.nullable <= version


class Struct(Generic[Value]):
    """A structure with its fields. Without `value`, it stands for the attribute of its one row."""

    __slots__ = ("rows", "value")

    def __init__(self, value: type[Value] | None, *rows: Row) -> None:
        self.value: Any = value
        self.rows = rows
        names = {row.to for row in rows if row.to is not None}
        assert value is None or names <= set(value._fields), names  # type: ignore[attr-defined]  # a tuple

    def in_version(self, version: int) -> Iterator[Row]:
        return (row for row in self.rows if row.in_version(version))

    def absent(self, attribute: str) -> Any:
        """The value of an attribute that a version does not have."""
        for row in self.rows:
            if row.to == attribute and row.absent is not NEVER:
                return row.absent
        return self.value._field_defaults[attribute]


Kind = Primitive | Number | Array | One | Inline | Struct[Any]


# --- rows -------------------------------------------------------------------------------------


def row(
    name: str,
    kind: Kind,
    to: str | None = None,
    *,
    since: int = 0,
    until: int = NEVER,
    **more: Any,
) -> Row:
    """A field with an attribute, of the same name if no other is given."""
    return Row(name, kind, to or name, since, until, **more)


def constant(
    name: str, kind: Kind, value: Any, *, since: int = 0, until: int = NEVER, nullable: int = NEVER
) -> Row:
    """A field that is always written alike, and ignored by readers."""
    return Row(name, kind, None, since, until, nullable, constant=value)


def throttle(since: int = 0) -> Row:
    """How long the client waits for its quota."""
    return Row("throttle_time_ms", INT32, None, since, NEVER, throttle=True, constant=0)


def inline(to: str, kind: Struct[Any] | One, *, since: int = 0, until: int = NEVER) -> Row:
    """Fields that are a value of their own here, and stand in the structure itself in the message."""
    return Row("", Inline(kind) if isinstance(kind, Struct) else kind, to, since, until)


# --- rows that many messages have -------------------------------------------------------------

ERROR: Final = INT16("error_code", "error")
MESSAGE: Final = STRING("error_message", "message", nullable=0)
PARTITION: Final = INT32("partition_index", "partition")
GROUP: Final = STRING("group_id", "group")
MEMBER: Final = STRING("member_id", "member")


# --- sizes ------------------------------------------------------------------------------------


def bytes_min(kind: Kind, version: int, *, flexible: bool) -> int:
    """The fewest bytes of a value."""
    match kind:
        case Number():
            return kind.size_bytes
        case Primitive():
            return kind.compact_bytes_min if flexible else kind.plain_bytes_min
        case Array():
            return bytes_min(BYTES, version, flexible=flexible)
        case One() | Inline():
            found = bytes_min(kind.of, version, flexible=flexible)
            return found - TAGS_BYTES_MIN if flexible and isinstance(kind.of, Struct) else found
        case Struct():
            fields = (_bytes_min(row, version, flexible) for row in kind.in_version(version))
            return sum(fields) + flexible


def _bytes_min(row: Row, version: int, flexible: bool) -> int:
    if row.tag is not None:
        return 0
    if isinstance(row.kind, Struct) and row.may_be_null(version):
        return INT8.size_bytes
    return bytes_min(row.kind, version, flexible=flexible)
