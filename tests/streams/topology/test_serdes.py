"""Values to bytes and back."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.streams.topology.serdes import (
    BYTES,
    INTEGER,
    JSON,
    STRING,
    BytesSerde,
    IntegerSerde,
    JsonSerde,
    StringSerde,
)

INTEGERS = st.integers(-(2**63), 2**63 - 1)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("aé✓\n"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("aé✓"), inner),
    max_leaves=8,
)


@given(st.binary())
def test_bytes_are_as_they_are(value: bytes) -> None:
    assert BYTES.encode(value) is value
    assert BYTES.decode(value) is value


@given(st.text())
def test_a_string_comes_back(value: str) -> None:
    assert STRING.decode(STRING.encode(value)) == value


@given(INTEGERS, INTEGERS)
def test_integers_come_back_and_their_bytes_are_in_their_order(one: int, other: int) -> None:
    assert INTEGER.decode(INTEGER.encode(one)) == one
    assert (INTEGER.encode(one) < INTEGER.encode(other)) == (one < other)
    assert len(INTEGER.encode(one)) == 8


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_an_integer_that_does_not_fit_is_named(value: int) -> None:
    with pytest.raises(OverflowError, match=f"^{value} does not fit into 64 bits$"):
        INTEGER.encode(value)


@pytest.mark.parametrize("data", [b"", b"7", bytes(9)])
def test_bytes_that_are_no_integer_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=f"^{len(data)} bytes; an integer has 8$"):
        INTEGER.decode(data)


@given(JSON_VALUES)
def test_json_comes_back(value: Any) -> None:
    assert JSON.decode(JSON.encode(value)) == value


@given(st.dictionaries(st.text(), st.integers()))
def test_equal_objects_are_equal_bytes_in_any_order_of_their_names(value: dict[str, int]) -> None:
    """A store finds a key by its bytes."""
    assert JSON.encode(dict(reversed(value.items()))) == JSON.encode(value)


def test_json_has_no_spaces_and_is_utf8() -> None:
    assert JSON.encode({"b": [1, 2], "a": "é"}) == '{"a":"é","b":[1,2]}'.encode()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_json_cannot_encode_infinity_or_nan(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        JSON.encode(value)


@pytest.mark.parametrize(
    ("serde", "value"), [(BYTES, "text"), (STRING, b"bytes"), (INTEGER, "7"), (INTEGER, 7.0)]
)
def test_a_value_of_another_type_is_named(serde: Any, value: object) -> None:
    with pytest.raises(TypeError, match=type(value).__name__):
        serde.encode(value)


def test_serdes_are_equal_by_what_they_do() -> None:
    assert (BytesSerde(), StringSerde(), IntegerSerde(), JsonSerde()) == (BYTES, STRING, INTEGER, JSON)
    assert len({BYTES, STRING, INTEGER, JSON}) == 4
