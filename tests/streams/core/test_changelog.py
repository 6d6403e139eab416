"""Keys of changelogs: stores apart from each other, and in order within one."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from strandline.streams.core.changelog import (
    CHANGELOG_START,
    LOCAL_PREFIX,
    POSITION_KEY,
    STORE_NAME_BYTES_MAX,
    state_key,
    store_end,
    store_prefix,
)

NAMES = st.text(max_size=6)
"""Names of stores, at most 24 bytes in UTF-8."""
KEYS = st.binary(max_size=12)


@given(st.tuples(NAMES, KEYS), st.tuples(NAMES, KEYS))
def test_two_entries_never_have_one_key(one: tuple[str, bytes], other: tuple[str, bytes]) -> None:
    assert (state_key(*one) == state_key(*other)) == (one == other)


@given(NAMES, NAMES, KEYS)
def test_a_store_is_between_its_prefix_and_its_end_and_no_other_store_is(
    store: str, other: str, key: bytes
) -> None:
    assert store_prefix(store) <= state_key(store, key) < store_end(store)
    assert state_key(store, key).removeprefix(store_prefix(store)) == key
    assume(store != other)
    assert not state_key(other, key).startswith(store_prefix(store))
    assert not store_prefix(store) <= state_key(other, key) < store_end(store)


@given(NAMES, KEYS, KEYS)
def test_keys_of_a_store_keep_their_order(store: str, one: bytes, other: bytes) -> None:
    assert (one < other) == (state_key(store, one) < state_key(store, other))


@given(NAMES, KEYS)
def test_the_position_record_is_no_entry_and_what_a_store_notes_for_itself_is_no_key(
    store: str, key: bytes
) -> None:
    assert state_key(store, key) > POSITION_KEY
    assert LOCAL_PREFIX + key < CHANGELOG_START <= POSITION_KEY


def test_a_name_may_be_as_long_as_a_byte_can_tell() -> None:
    longest = "n" * STORE_NAME_BYTES_MAX
    assert state_key(longest, b"k").endswith(longest.encode() + b"k")
    with pytest.raises(ValueError, match="256 bytes, at most 255"):
        store_prefix(longest + "n")
