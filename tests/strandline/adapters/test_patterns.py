"""Patterns that clients send match as Kafka's do, and no pattern holds up a broker."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.adapters.patterns import PATTERN_CHARS_MAX, Pattern
from strandline.errors import InvalidRegularExpression

ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\.", r"\d", "-"])
PATTERNS = st.lists(
    st.tuples(ATOMS, st.sampled_from(["", "*", "+", "?"])).map("".join), min_size=1, max_size=5
).map("".join)


@given(st.lists(PATTERNS, min_size=1, max_size=3).map("|".join), st.text("ab.-1", max_size=8))
def test_it_matches_what_the_expression_does(pattern: str, text: str) -> None:
    assert Pattern(pattern).matches(text) is (re.fullmatch(pattern, text) is not None)


@pytest.mark.parametrize(
    ("pattern", "text"), [("^pay.*$", "payments"), ("a|b|", ""), (r"x\$", "x$"), ("[]]", "]"), ("é+", "éé")]
)
def test_it_matches(pattern: str, text: str) -> None:
    assert Pattern(pattern).matches(text)


@pytest.mark.parametrize(
    "pattern", ["(a", "*", "[", "a{1001}", "\\", r"(?=a)", r"(a)\1", "[b-a]", "x" * (PATTERN_CHARS_MAX + 1)]
)
def test_what_is_not_read_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression):
        Pattern(pattern)


def test_no_pattern_takes_long() -> None:
    """CORRECTNESS X6: with such a one Python's engine would need longer than the universe has been there."""
    assert not Pattern("a*" * 100 + "b").matches("a" * 1_024)
