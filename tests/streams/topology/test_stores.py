"""A store's keys and values over the bytes of a task."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.streams.topology.errors import RecordRefused
from strandline.streams.topology.serdes import INTEGER, JSON, STRING
from strandline.streams.topology.stores import Store, StoreView
from tests.streams.topology.memory_state import MemoryState

NUMBERS = Store("numbers", INTEGER, STRING)


def test_a_stored_value_is_there_until_it_is_deleted() -> None:
    view = StoreView(NUMBERS, MemoryState())
    assert view.get(1) is None
    view.put(1, "one")
    view.put(1, "ein")
    assert view.get(1) == "ein"
    view.delete(1)
    view.delete(2)
    assert view.get(1) is None


def test_a_value_of_none_deletes() -> None:
    view = StoreView(Store("any", STRING, JSON), MemoryState())
    view.put("k", 1)
    view.put("k", None)
    assert view.get("k") is None
    assert list(view.range()) == []


def test_stores_of_one_task_do_not_see_each_other() -> None:
    state = MemoryState()
    one, other = StoreView(NUMBERS, state), StoreView(Store("others", INTEGER, STRING), state)
    one.put(1, "one")
    assert other.get(1) is None
    assert list(other.range()) == []


@given(
    st.dictionaries(st.integers(-20, 20), st.text(max_size=3)),
    st.none() | st.integers(-21, 21),
    st.none() | st.integers(-21, 21),
)
def test_a_range_is_from_its_start_until_before_its_end_in_order(
    content: dict[int, str], start: int | None, end: int | None
) -> None:
    view = StoreView(NUMBERS, MemoryState())
    for key, value in content.items():
        view.put(key, value)
    wanted = [
        (key, value)
        for key, value in sorted(content.items())
        if (start is None or start <= key) and (end is None or key < end)
    ]
    assert list(view.range(start, end)) == wanted


def test_changes_during_a_range_do_not_show() -> None:
    """So a caller that clears a store may delete what the range returns."""
    view = StoreView(NUMBERS, MemoryState())
    for key in range(4):
        view.put(key, "v")
    rows = view.range()
    view.put(9, "late")
    for key, _ in rows:
        view.delete(key)
    assert list(view.range()) == [(9, "late")]


def test_a_key_of_none_is_refused() -> None:
    view = StoreView(NUMBERS, MemoryState())
    nothing: Any = None
    for call in (lambda: view.get(nothing), lambda: view.put(nothing, "v"), lambda: view.delete(nothing)):
        with pytest.raises(RecordRefused, match=r"store 'numbers': a key of None; filter"):
            call()  # type: ignore[no-untyped-call]


def test_an_error_of_a_serde_names_the_store() -> None:
    state = MemoryState()
    view: Any = StoreView(NUMBERS, state)
    state.put("numbers", INTEGER.encode(1), b"\xff")
    state.put("numbers", b"short", b"")
    for call, note in (
        (lambda: view.get("text"), "while encoding a key for store 'numbers'"),
        (lambda: view.put(1, 2), "while encoding a value for store 'numbers'"),
        (lambda: view.get(1), "while decoding a value of store 'numbers'"),
        (lambda: list(view.range()), "while decoding a key of store 'numbers'"),
    ):
        with pytest.raises((TypeError, ValueError)) as raised:
            call()
        assert raised.value.__notes__ == [note]
    assert state.data == {("numbers", INTEGER.encode(1)): b"\xff", ("numbers", b"short"): b""}
