"""The check for plain English."""

from __future__ import annotations

import subprocess
from pathlib import Path

from checks import plain

SOURCE = '''"""Sends a message to
whoever asks."""

NOBODY = "nobody"  # nobody leads
'''


def test_a_banned_word_in_a_docstring_or_comment_is_reported_with_its_line() -> None:
    assert list(plain.banned("a.py", SOURCE)) == [
        "a.py:2: 'whoever': name the thing",
        "a.py:4: 'nobody': name it: no broker, another client",
    ]


def test_words_that_a_line_break_divides_are_found() -> None:
    page = "A page.\n\nThe client is\ntold, and is not connected any\n    more."
    assert [each.split("'")[0] for each in plain.banned("a.md", page)] == ["a.md:3: ", "a.md:4: "]


def test_constants_and_strings_are_not_prose() -> None:
    assert list(plain.banned("a.py", 'word = "nobody"\n"""NOBODY stands for no leader."""\n')) == []


def test_only_the_listed_paths_are_checked(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for folder in ("clean", "later"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text(SOURCE)
    found = list(plain.problems(tmp_path, ("clean",)))
    assert len(found) == 2
    assert all(each.startswith("clean/a.py:") for each in found)
