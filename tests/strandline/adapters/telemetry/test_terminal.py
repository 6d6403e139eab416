"""Text from other clients is shown, and does nothing to the terminal that shows it."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.adapters.telemetry.terminal import escaped_json, printable

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders-2026.x_y", "orders-2026.x_y"),
        ("Überläufe, 注文, می‌خواهم", "Überläufe, 注文, می‌خواهم"),
        ("[red]x[/red] :smile:", "[red]x[/red] :smile:"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\nerror: b\r\t", r"a\nerror: b\r\t"),
        ("a\x9b31mb\x7f", r"a\x9b31mb\x7f"),
        ("a\u202ecba", r"a\u202ecba"),
        ("half \ud800", r"half \ud800"),
    ],
)
def test_a_name_is_shown_as_it_is_but_for_what_a_terminal_would_act_on(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(ANY_TEXT)
def test_shown_text_has_no_control_characters_and_can_be_encoded(text: str) -> None:
    shown = printable(text)
    assert not any(unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp") for each in shown)
    assert shown.encode().decode() == shown


@given(st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=3))
def test_json_says_exactly_the_same(value: dict[str, str]) -> None:
    line = escaped_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(line) == value
    assert not any(unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp") for each in line)
