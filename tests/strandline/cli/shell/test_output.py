"""Markup and escapes in names of topics, groups, clients and configs are shown, never acted on."""

from __future__ import annotations

import contextlib
import io
import json
import tracemalloc
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from strandline.cli.shell.command import Root
from strandline.cli.shell.output import Output
from strandline.errors import UnknownTopicOrPartition
from strandline.report.text.records import TEXT_CHARS_MAX, json_line, json_pieces

HOSTILE = "[red]x[/red] [link=http://x]y[/link] :smile: \x1b[31mz\x9b0m\n\r\u202e"
SHOWN = r"[red]x[/red] [link=http://x]y[/link] :smile: \x1b[31mz\x9b0m\n\r\u202e"


class Terminal(io.StringIO):
    """Standard output as a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_table_on_a_terminal_shows_a_name_as_it_is() -> None:
    with contextlib.redirect_stdout(Terminal()) as out:
        Output().table(("topic", "isr"), [["[red]x[/red] :smile: \x1b[31mz", [1, 2]], ["plain", None]])
    _, hostile, plain = out.getvalue().splitlines()
    assert hostile.rstrip() == r"[red]x[/red] :smile: \x1b[31mz  1,2"
    assert plain.split() == ["plain", "-"]


def test_a_table_elsewhere_and_lines_and_facts_show_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output()
    out.table(("group", "lag"), [[HOSTILE, 0]])
    out.line(f"group {HOSTILE}")
    out.show({"key": HOSTILE})
    out.note(f"left out: {HOSTILE}")
    said = capsys.readouterr()
    assert said.out.splitlines()[1:] == [f"{SHOWN}  0", f"group {SHOWN}", f"key={SHOWN}"]
    assert said.err == f"left out: {SHOWN}\n"


def test_json_is_exact_and_does_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Output(json=True).emit({"group": HOSTILE})
    line = capsys.readouterr().out
    assert json.loads(line) == {"group": HOSTILE}
    assert not {"\x1b", "\x9b", "\u202e"} & set(line)


LONG = "a\x00\u202e\U0001f600'" * TEXT_CHARS_MAX


@pytest.mark.parametrize(
    "value",
    [
        {"value": LONG, "n": 1, "nothing": None, "empty": {}, "none": [], "yes": True},
        {"headers": [{"key": LONG, "value": "short"}, {"key": "é", "value": None}], "key": "k"},
        {"a": {"b": [1.5, LONG, [LONG]]}},
        {"value": "short", "headers": []},
    ],
)
def test_a_long_text_is_written_in_pieces_and_is_the_same_line(value: dict[str, object]) -> None:
    pieces = list(json_pieces(value))
    assert max(map(len, pieces)) <= 6 * TEXT_CHARS_MAX
    assert "".join(pieces) == json_line(value)


def test_a_record_of_many_zeros_takes_little_memory(tmp_path: Path) -> None:
    """In JSON a zero has six characters."""
    path = tmp_path / "out"
    value = {"value": "\0" * (32 << 20)}
    with path.open("w", encoding="utf-8") as out, contextlib.redirect_stdout(out):
        tracemalloc.start()
        Output(json=True).emit(value)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 64 << 20
    assert path.stat().st_size == len('{"value": ""}\n') + 6 * (32 << 20)


@pytest.mark.parametrize("error", [UnknownTopicOrPartition(f"topic {HOSTILE}"), ValueError(HOSTILE)])
def test_a_failure_is_one_line_for_any_subject(error: Exception) -> None:
    @click.group(cls=Root)
    def root() -> None:
        pass

    @root.command()
    def fail() -> None:
        raise error

    result = CliRunner().invoke(root, ["fail"])
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert SHOWN in line
