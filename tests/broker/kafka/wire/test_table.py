"""What a declaration promises beyond the messages that are declared: `test_messages.py` has those."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from strandline.broker.kafka.wire.fields import MalformedRequest, Reader, Writer
from strandline.broker.kafka.wire.table.compiled import reading, writing
from strandline.broker.kafka.wire.table.rows import (
    BYTES,
    INT16,
    INT32,
    STRING,
    UUID,
    Array,
    Kind,
    Struct,
    constant,
    row,
)


class Pair(NamedTuple):
    name: str | None
    number: int = 7
    more: tuple[int, ...] = ()


TAGGED = Struct(Pair, STRING("name"), INT32("number", tag=3), row("more", Array(INT16), tag=1))


def written(struct: Struct[Any], value: Any, version: int = 0, *, flexible: bool = True) -> bytes:
    writer = Writer(flexible=flexible)
    assert writing(struct, version, flexible)(writer, value) is None
    return b"".join(writer.parts())


def read(struct: Kind, data: bytes, version: int = 0, *, flexible: bool = True) -> Any:
    return reading(struct, version, flexible)(Reader(data, flexible=flexible))


# --- tagged fields ----------------------------------------------------------------------------


@pytest.mark.parametrize("value", [Pair("n", 5, (1, 2)), Pair("n", 5), Pair("n", more=(3,)), Pair("")])
def test_tagged_fields_are_read_as_they_were_written(value: Pair) -> None:
    assert read(TAGGED, written(TAGGED, value)) == value


def test_a_tagged_field_without_a_value_is_not_written() -> None:
    assert written(TAGGED, Pair("n", 0)) == b"\x02n\x00"


def test_tagged_fields_come_in_any_order_among_unknown_ones_and_the_last_counts() -> None:
    five, six = (number.to_bytes(4, "big") for number in (5, 6))
    tags = b"\x04" + b"\x03\x04" + five + b"\x09\x02??" + b"\x01\x03\x02\x00\x01" + b"\x03\x04" + six
    assert read(TAGGED, b"\x02n" + tags) == Pair("n", 6, (1,))


@pytest.mark.parametrize(
    "tags",
    [
        b"\x01\x03\x03\x00\x00\x00",
        b"\x01\x01\x03\x03\x00\x01\x00\x02",
        b"\x01\x03\x05\x00\x00\x00\x05",
        b"\x01\x01\x01\x00",
    ],
    ids=["shorter than its number", "a count beyond its size", "a size beyond the message", "null"],
)
def test_a_tagged_field_is_read_within_its_size(tags: bytes) -> None:
    """CORRECTNESS X6."""
    with pytest.raises(MalformedRequest):
        read(TAGGED, b"\x02n" + tags)


# --- structures that may be null ---------------------------------------------------------------


class Holder(NamedTuple):
    pair: Pair | None
    number: int = 7


PAIR = Struct(Pair, STRING("name"), INT32("number"))
HOLDER = Struct(Holder, row("pair", PAIR, nullable=0), INT16("number"))


@pytest.mark.parametrize("flexible", [False, True])
@pytest.mark.parametrize("value", [Holder(None, 5), Holder(Pair("n", 6), 5)])
def test_a_structure_may_be_null(value: Holder, flexible: bool) -> None:
    """It has a number before it: -1 for null."""
    whole = written(HOLDER, value, flexible=flexible)
    assert whole[:1] == (b"\xff" if value.pair is None else b"\x01")
    assert read(HOLDER, whole, flexible=flexible) == value
    assert read(Array(HOLDER), (b"\x02" if flexible else b"\0\0\0\1") + whole, flexible=flexible) == (value,)
    for length in range(len(whole)):
        with pytest.raises(MalformedRequest):
            read(HOLDER, whole[:length], flexible=flexible)


# --- versions ---------------------------------------------------------------------------------

GROWN = Struct(
    Pair,
    STRING("name", nullable=2),
    constant("gone", INT16, -1, until=1),
    INT32("number", since=1, absent=9),
)


def test_a_version_has_its_fields_and_the_others_their_defaults() -> None:
    assert [written(GROWN, Pair("n", 5), version, flexible=False) for version in (0, 1, 2)] == [
        b"\x00\x01n\xff\xff",
        b"\x00\x01n\xff\xff\x00\x00\x00\x05",
        b"\x00\x01n\x00\x00\x00\x05",
    ]
    read_again = [
        read(GROWN, written(GROWN, Pair("n", 5), version, flexible=False), version, flexible=False)
        for version in (0, 1, 2)
    ]
    assert read_again == [Pair("n", 9), Pair("n", 5), Pair("n", 5)]


def test_none_is_written_as_empty_where_null_is_not_allowed() -> None:
    assert written(GROWN, Pair(None, 5), 1, flexible=False).startswith(b"\x00\x00")
    assert written(GROWN, Pair(None, 5), 2, flexible=False).startswith(b"\xff\xff")


@pytest.mark.parametrize("kind", [STRING, BYTES, Array(INT32)], ids=["string", "bytes", "array"])
@pytest.mark.parametrize("flexible", [False, True])
def test_null_where_it_is_not_allowed_is_malformed(kind: Any, flexible: bool) -> None:
    null = b"\x00" if flexible else b"\xff" * 4
    with pytest.raises(MalformedRequest, match="null"):
        reading(kind, 0, flexible)(Reader(null + bytes(8), flexible=flexible))


# --- hostile input ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "data", "why"),
    [
        (STRING, b"\xff\xfe", "a string of -2 bytes"),
        (STRING, b"\x00\x02\xc3\x28", "not UTF-8"),
        (STRING, b"\x00\x02n", "bytes wanted"),
        (BYTES, b"\xff\xff\xff\xfe", "bytes of length -2"),
        (BYTES, b"\x7f\xff\xff\xff", "bytes wanted"),
        (Array(INT32), b"\xff\xff\xff\xfe", "-2 elements"),
        (Array(INT32), b"\x00\x00\x00\x03" + bytes(11), "3 elements in 11 bytes"),
        (Array(GROWN), b"\x00\x00\x00\x03" + bytes(11), "3 elements in 11 bytes"),
        (Array(Array(INT32)), b"\x00\x00\x00\x03" + bytes(11), "3 elements in 11 bytes"),
    ],
)
def test_lengths_and_texts_that_are_wrong_are_malformed(kind: Any, data: bytes, why: str) -> None:
    """CORRECTNESS X6: a count is checked against the least that its elements take."""
    with pytest.raises(MalformedRequest, match=why):
        reading(kind, 0, False)(Reader(data))


def test_a_declaration_names_attributes_that_its_value_has() -> None:
    with pytest.raises(AssertionError, match="offset"):
        Struct(Pair, INT32("offset"))


# --- ids --------------------------------------------------------------------------------------


@pytest.mark.parametrize("digits", ["ab", "0" * 31, "0" * 34])
def test_an_id_has_all_its_bytes(digits: str) -> None:
    """One of fewer would move each field behind it: an answer without its last bytes is none."""
    named = Struct(Pair, UUID("name"))
    for none in ("", "0" * 32):
        assert written(named, Pair(none), flexible=False) == bytes(16)
    with pytest.raises(ValueError):
        written(named, Pair(digits))
