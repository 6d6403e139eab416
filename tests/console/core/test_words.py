"""Numbers, sizes and times as the pages write them."""

from __future__ import annotations

import doctest
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from strandline.console.core import words


def test_the_examples_of_the_words_hold() -> None:
    assert doctest.testmod(words).failed == 0


@given(st.integers(0, 253_402_300_799_999))
def test_a_moment_is_written_as_python_writes_it(at_ms: int) -> None:
    written = datetime.fromtimestamp(at_ms // 1000, UTC).replace(microsecond=at_ms % 1000 * 1000)
    assert words.utc(at_ms) == written.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert words.ms_of(words.utc(at_ms)) == at_ms


def test_what_is_no_moment_is_none() -> None:
    for text in (
        "",
        "noon",
        "2023-02-29",
        "2023-13-01",
        "2023-01-01T25:00",
        "1969-12-31",
        "2023-1-1",
        "2023",
    ):
        assert words.ms_of(text) is None
    assert words.ms_of("1970-01-01T00:00:01.5-00:30") == 1_801_500
