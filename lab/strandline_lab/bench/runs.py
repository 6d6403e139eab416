"""Runs `strandline-lab perf` as users do, each time in a process of its own; and what a process printed."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strandline_lab.bench.report import median_of, table


@dataclass(frozen=True, slots=True)
class Question:
    """A measurement: its name for the table, and the arguments of `strandline-lab perf`."""

    name: str
    arguments: Sequence[str]


Answers = list[Mapping[str, Any]]


async def perf(bootstrap: str | None, arguments: Sequence[str]) -> Mapping[str, Any]:
    """The figures of one run. Raises RuntimeError with its error output if it failed."""
    command = [sys.executable, "-m", "strandline_lab", "perf", *arguments, "-o", "json"]
    if bootstrap is not None:
        command += ["--bootstrap", bootstrap]
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    figures: Mapping[str, Any] = json.loads(await output_of(process, " ".join(command)))
    return figures


async def output_of(process: Process, what: str) -> bytes:
    """What a process prints until it ends. A caller that is cancelled meanwhile kills it.

    Raises RuntimeError with its error output if it failed; `what` names it there.
    """
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        raise RuntimeError(f"{what} ended with {process.returncode}: {err.decode().strip()}")
    return out


async def ask(bootstrap: str | None, questions: Sequence[Question], runs: int) -> dict[str, Answers]:
    """Answers each question `runs` times, in turns, so that a drift of the machine affects all alike."""
    answers: dict[str, Answers] = {question.name: [] for question in questions}
    for run in range(runs):
        for question in questions:
            print(f"run {run + 1} of {runs}: {question.name}", file=sys.stderr, flush=True)
            answers[question.name].append(await perf(bootstrap, question.arguments))
    return answers


def show(answers: Mapping[str, Answers], figures: Mapping[str, str]) -> None:
    """Prints a table: a row for each question, a column for each of `figures` (name in the JSON →
    heading)."""
    table(
        ["", *figures.values()],
        [
            [name, *(median_of([run[figure] for run in runs]) for figure in figures)]
            for name, runs in answers.items()
        ],
    )
