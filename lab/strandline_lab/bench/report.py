"""Prints measurements: the machine, the command, and a markdown table of medians."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

RUNS: Final = 5
"""Runs of each measurement by default."""


def machine() -> str:
    """Cores, memory and Python of this machine, as a sentence."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system, python = platform.system(), platform.python_version()
    return f"{os.cpu_count()} cores, {memory:.0f} GiB of memory, {system}, Python {python}"


def heading(title: str, name: str) -> None:
    """Prints the title of a table, the machine and the command. `name` is the measurement's."""
    print(f"\n## {title}\n\n{machine()}; `python -m strandline_lab.bench {name}`\n", flush=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a markdown table."""
    print(f"| {' | '.join(columns)} |")
    print(f"| {' | '.join('---' for _ in columns)} |")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def median_of(values: Sequence[float]) -> str:
    """The median; for several values also the smallest and the greatest, in brackets.

    >>> median_of([3.0, 1.0, 2.0]) '2.00 (1.00–3.00)'
    """
    if len(values) == 1:
        return number(values[0])
    return f"{number(statistics.median(values))} ({number(min(values))}–{number(max(values))})"


def number(value: float) -> str:
    """Three significant digits; thousands as k, millions as M."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    if isinstance(value, int):
        return str(value)
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value >= 10 else f"{value:.2f}"


async def medians(
    runs: int, one_run: Callable[[], Awaitable[Mapping[str, float]]], figures: Mapping[str, str]
) -> None:
    """Runs it `runs` times, and prints a row for each of `figures` (name in the answer → label)."""
    answers = []
    for run in range(runs):
        print(f"run {run + 1} of {runs}", file=sys.stderr, flush=True)
        answers.append(await one_run())
    table(
        ["", "median (min–max)"],
        [[head, median_of([answer[name] for answer in answers])] for name, head in figures.items()],
    )


def resident_mib(pid: int) -> float:
    """The resident memory of a process, MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def cpu_s(pid: int) -> float:
    """The processor time that a process has used, seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
