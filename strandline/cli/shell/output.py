"""The output of the command line: JSON lines for programs, tables and bars for people.

Standard output has only results. Progress goes to standard error, as a bar on a terminal and as plain lines
elsewhere. Text from other sources (names, ids, reasons) is escaped: neither the terminal nor rich interprets
it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from strandline.adapters.telemetry.terminal import printable
from strandline.report.text.records import json_pieces


@dataclass(slots=True)
class Output:
    """Writes results, in the chosen format."""

    json: bool = False

    def emit(self, value: Mapping[str, Any], *, flush: bool = False) -> None:
        """Writes one JSON object on a line of its own."""
        sys.stdout.writelines(json_pieces(value))
        if flush:
            sys.stdout.flush()

    def show(self, facts: Mapping[str, Any], *, indent: str = "") -> None:
        """Writes facts on one line: as JSON, or as `name=value` pairs."""
        if self.json:
            self.emit(facts)
        else:
            self.line(indent + " ".join(f"{name}={_cell(value)}" for name, value in facts.items()))

    def line(self, text: str) -> None:
        """Writes a line for people."""
        sys.stdout.write(f"{printable(text)}\n")

    def note(self, text: str) -> None:
        """Writes a line about the progress on standard error."""
        print(printable(text), file=sys.stderr, flush=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Writes aligned columns; on a terminal with a coloured head."""
        if not sys.stdout.isatty():
            sys.stdout.writelines(f"{line}\n" for line in aligned(columns, rows))
            return
        from rich.console import Console
        from rich.table import Table

        table = Table(*columns, box=None, pad_edge=False, header_style="bold cyan")
        for row in rows:
            table.add_row(*(_cell(value) for value in row))
        Console(markup=False, emoji=False, highlight=False).print(table)

    @contextmanager
    def progress(self, what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Shows the progress of `what`; call the yielded function with the amount done since the last
        call."""
        if not sys.stderr.isatty():
            self.note(what)
            yield lambda _done: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        counts = [] if total is None else [MofNCompleteColumn()]
        columns = [TextColumn("{task.description}", markup=False), BarColumn(), *counts, TimeElapsedColumn()]
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(printable(what), total=total)
            yield lambda done: progress.advance(task, done)


def aligned(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a plain table: columns as wide as their widest cell, two spaces between."""
    cells = [list(columns), *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return printable(",".join(map(str, value)))
        case _:
            return printable(str(value))
