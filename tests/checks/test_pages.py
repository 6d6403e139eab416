"""Links lead somewhere, tables are current, forbidden words are found (docs/understand/testing.md)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from checks import doc_tables, docs, links, tidy


def test_a_link_to_a_missing_file_or_heading_is_found(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# What runs, & why\n")
    page = tmp_path / "a.md"
    page.write_text("[1](b.md) [2](b.md#what-runs--why) [3](https://example.org) [4](c.md) [5](b.md#no)")
    assert list(links.problems(page, tmp_path)) == [
        "a.md: link to c.md: no such file",
        "a.md: link to b.md#no: no such heading",
    ]


def test_a_path_of_a_file_that_is_gone_is_found_and_another_word_with_a_slash_is_not(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker/log.py").write_text("")
    page = tmp_path / "a.md"
    page.write_text("`broker/log.py`, `broker/index.py`, `text/plain`, `broker/`\n```\n`broker/x.py`\n```\n")
    assert list(links.problems(page, tmp_path)) == ["a.md: names broker/index.py: no such file"]


def test_a_table_shows_name_default_bounds_and_docstring() -> None:
    table = doc_tables.rewrite("<!-- table: settings BrokerSettings -->\nstale text\n<!-- end of table -->\n")
    assert "stale text" not in table
    assert "| `rack` | empty |" in table and "push_window" not in table
    assert "| `broker_id` | required | 0 to 2^31 − 1 |" in table
    assert "| `push_window` | 2 | Messages on a replication stream" in doc_tables.constants("BrokerConstants")
    table = doc_tables.settings("ConsumerSettings")
    assert "| `group_instance_id` | none | 1 to 249 characters |" in table


def test_a_message_that_no_code_prints_and_a_missing_table_of_messages_are_found(tmp_path: Path) -> None:
    assert "no code prints 'gone'" in next(docs.unsaid("| it says | then |\n| `gone` | wait |\n", tmp_path))
    assert "has no table" in next(docs.unsaid("| message | then |\n| `gone` | wait |\n", tmp_path))


def test_a_sleep_in_a_test_is_found_and_a_turn_of_the_loop_is_not() -> None:
    text = "import asyncio\n" + "".join(f"await asyncio.{'sleep'}({seconds})\n" for seconds in (0, 1))
    assert [line.split(": ")[0] for line in tidy.words("tests/test_a.py", text)] == ["tests/test_a.py:3"]
    assert list(tidy.words("broker/a.py", text)) == []


def test_a_long_function_is_found() -> None:
    text = "def long():\n" + "    pass\n" * tidy.FUNCTION_LINES_MAX
    assert list(tidy.sizes("broker/a.py", text)) == ["broker/a.py:1: long has 71 lines, more than 70"]


def test_pictures_of_pages_are_small(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    for name, size in (("docs/run/pictures/a.png", 150_000), ("docs/run/pictures/b.png", 150_001)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"\x89" * size)
    (tmp_path / "c.png").write_bytes(b"\x89")
    assert [line.partition(":")[0] for line in tidy.problems(tmp_path)] == [
        "c.png",
        "docs/run/pictures/b.png",
    ]
