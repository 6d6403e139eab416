"""How bytes are shown, which part of a log is asked for, and what is said about it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.console.core.records.asked import Ends, From, first_offset, notes
from strandline.console.core.records.needle import WINDOW_MAX, Needle, Progress
from strandline.console.core.records.shown import INDENT_LEVELS_MAX, As, shown, visible
from strandline.errors import InvalidRequest

UNFIT = set(map(chr, [*range(0, 9), *range(11, 32), *range(0x7F, 0xA0), 0x200B, 0x202E, 0x2066, 0xFEFF]))


@given(st.binary(max_size=300), st.sampled_from(As), st.integers(1, 100))
def test_any_bytes_are_shown_within_bounds_and_without_controls(data: bytes, how: As, chars_max: int) -> None:
    part = shown(data, how, chars_max)
    assert part.size == len(data)
    assert not UNFIT & set(part.text)
    assert len(part.text) <= max(10 * chars_max, 80)
    if part.kind == "text" and not part.cut and not part.note:
        assert part.text == visible(data.decode())


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    )
)
def test_indented_json_is_the_same_json(value: object) -> None:
    part = shown(json.dumps(value).encode(), As.JSON, 100_000)
    assert part.kind == "json" and not part.cut
    assert json.loads(part.text) == value


def test_numbers_and_repeated_names_of_json_stay_as_they_were_written() -> None:
    written = b'{"a":1.0e400,"a":12345678901234567890123,"b":0.10}'
    text = shown(written, As.AUTO, 1_000).text
    assert text == '{\n  "a": 1.0e400,\n  "a": 12345678901234567890123,\n  "b": 0.10\n}'


def test_deep_json_asks_for_no_more_than_its_bound() -> None:
    deep = b"[" * 900 + b"1," * 20_000 + b"1" + b"]" * 900
    part = shown(deep, As.AUTO, 5_000)
    assert part.kind == "json" and part.cut and len(part.text) == 5_000
    part = shown(deep, As.AUTO, 100_000)
    assert part.kind == "json" and "\n" + "  " * (INDENT_LEVELS_MAX + 1) not in part.text
    assert shown(b"[" * 100_000, As.AUTO, 100).kind == "text"


@pytest.mark.parametrize(
    ("data", "how", "kind"),
    [
        (None, As.AUTO, "null"),
        (b"", As.HEX, "empty"),
        (b"plain", As.AUTO, "text"),
        (b'"a string"', As.AUTO, "text"),
        (b'"a string"', As.JSON, "json"),
        (b"plain", As.JSON, "text"),
        (b"\xff", As.AUTO, "hex"),
        (b"\xff", As.TEXT, "text"),
        (b"a\x00b", As.AUTO, "hex"),
        ("é".encode() * 100, As.AUTO, "text"),
    ],
)
def test_what_fits_is_chosen(data: bytes | None, how: As, kind: str) -> None:
    assert shown(data, how, 10).kind == kind


def test_a_cut_within_a_character_is_no_binary() -> None:
    part = shown(b"a" + "é".encode() * 1_000, As.AUTO, 100)
    assert part.kind == "text" and part.cut and part.text == "a" + "é" * 99


ENDS = Ends(start=10, high_watermark=100, end=103)


@pytest.mark.parametrize(
    ("where", "at", "first"),
    [
        (From.EARLIEST, 0, 10),
        (From.END, 0, 80),
        (From.OFFSET, 5, 10),
        (From.OFFSET, 50, 50),
        (From.OFFSET, 500, 100),
        (From.TIME, 70, 70),
        (From.TIME, -1, 100),
    ],
)
def test_reading_begins_within_the_log(where: From, at: int, first: int) -> None:
    assert first_offset(where, at, 20, ENDS) == first


def test_what_a_reader_has_to_know_is_said() -> None:
    def said(where: From, at: int, ends: Ends, first: int, offsets: list[int], compacts: bool = False) -> str:
        return " ".join(notes(where, at, ends, first, offsets, compacts=compacts))

    assert "below offset 10 are deleted" in said(From.OFFSET, 5, ENDS, 10, [10])
    assert "no record at offset 500 yet: the next one gets 103" in said(From.OFFSET, 500, ENDS, 100, [])
    assert "No record is that recent" in said(From.TIME, -1, ENDS, 100, [])
    assert "3 further records are not committed" in said(From.END, 0, ENDS, 80, [80])
    assert "Offsets 20 to 29 have no record now" in said(From.OFFSET, 20, ENDS, 20, [30], True)
    assert "Offset 20 has no record." in said(From.OFFSET, 20, ENDS, 20, [21])
    assert "never had a record" in said(From.END, 0, Ends(0, 0, 0), 0, [])
    assert "has no record now" in said(From.END, 0, Ends(5, 5, 5), 5, [])
    assert said(From.OFFSET, 20, Ends(0, 100, 100), 20, [20]) == ""


def test_a_needle_is_text_or_bytes() -> None:
    assert Needle.read("é", "").data == "é".encode() and Needle.read("", "ff 00").data == b"\xff\x00"
    assert Needle(b"b").is_in((None, b"abc")) and not Needle(b"d").is_in((None, b"abc"))
    for text, hexadecimal in (("", ""), ("a", "61"), ("", "6"), ("", "zz"), ("a" * 1_001, "")):
        with pytest.raises(InvalidRequest):
            Needle.read(text, hexadecimal)


@given(st.integers(0, 500), st.integers(0, 5_000), st.lists(st.sampled_from(["cheap", "dear", "too dear"])))
def test_a_search_reads_each_offset_once_and_the_newest_first(
    start: int, count: int, costs: list[str]
) -> None:
    progress = Progress(start, start + count, start + count, 0)
    read: list[int] = []
    while not progress.done:
        first, end = progress.next
        cost = costs.pop() if costs else "cheap"
        assert start <= first < end and end - first <= WINDOW_MAX
        if cost == "too dear":
            narrowed = progress.narrowed()
            assert narrowed.next[1] - narrowed.next[0] < end - first or end - first == 1
            progress = narrowed
            continue
        read += reversed(range(first, end))
        progress = progress.after(0, cheap=cost == "cheap")
    assert read == list(reversed(range(start, start + count)))
