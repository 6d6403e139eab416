"""Reads the folder of a run: a round of chaos, or a failing run of the simulation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from strandline.console.core.runs.run import Run, RunTimeline, run_of, timeline_of
from strandline.console.core.timeline.journal import Record
from strandline.errors import SettingsError
from strandline.report.round_files import FINDINGS, GROUP_EVENTS, STATE_CHANGES, TIMELINE, Moment, RoundFiles

PLAN: Final = "plan.json"
RESULT: Final = "result.json"
"""Only a run of the simulation has it."""
COMMAND: Final = "command.txt"
LINES_MAX: Final = 500_000
"""Lines of one file; further ones are left out."""
FOLDERS_MAX: Final = 200
"""Runs in one folder of runs; the newest are taken."""


State = frozenset[tuple[str, int, int]]
"""The files of a folder: each with its name, when it was written (ns), and its bytes."""


def folders_of(given: Iterable[Path]) -> list[Path]:
    """The folders of runs: each is one, or has some in it, of which the newest FOLDERS_MAX are taken.

    Raises SettingsError for a folder without a run.
    """
    found: dict[Path, None] = {}
    for folder in given:
        if is_run(folder):
            found[folder.resolve()] = None
            continue
        within = [each for each in folder.iterdir() if is_run(each)] if folder.is_dir() else []
        if not within:
            raise SettingsError(_no_run(folder))
        within.sort(key=lambda each: (each / TIMELINE).stat().st_mtime_ns)
        found |= {each.resolve(): None for each in within[-FOLDERS_MAX:]}
    return list(found)


def is_run(folder: Path) -> bool:
    """Whether a run has left its moments there."""
    return (folder / TIMELINE).is_file()


def _no_run(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} is no folder: give that of a chaos round or of a failing run of the simulation"
    if (folder / RESULT).is_file():
        again = f"strandline-lab simulate --plan {folder / PLAN}"
        return f"{folder} has no {TIMELINE}, so an older version wrote it; write it again: {again}"
    return f"{folder} has no {TIMELINE}, and no folder in it has one: no run has ended there"


def state_of(folder: Path) -> State:
    """The files that are there now. Raises OSError."""
    found = [(each.name, each.stat()) for each in folder.iterdir()]
    return frozenset((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)


def read_run(name: str, folder: Path) -> Run:
    """What the run was. Raises OSError."""
    return _read(name, folder)[0]


def read_timeline(name: str, folder: Path) -> RunTimeline:
    """All that happened in the run. Raises OSError."""
    run, moments, files = _read(name, folder)
    found = timeline_of(
        run,
        moments,
        islice(files.observations(), LINES_MAX),
        _records(folder / STATE_CHANGES, "at"),
        _records(folder / GROUP_EVENTS, "at_ms"),
    )
    return replace(found, run=replace(run, unread=tuple(files.unread)))  # also what observations lack


def _read(name: str, folder: Path) -> tuple[Run, list[Moment], RoundFiles]:
    files = RoundFiles(folder, strict=False)
    moments = list(islice(files.moments(), LINES_MAX))
    if not moments:
        raise SettingsError(f"{folder / TIMELINE} has no moment: no run has begun there")
    simulated = (folder / RESULT).is_file()
    run = run_of(
        name,
        simulated=simulated,
        seed=_seed(folder / PLAN),
        command=_command(folder, simulated=simulated),
        moments=moments,
        findings=list(islice(files.findings(), LINES_MAX)) if files.has(FINDINGS) else None,
        unread=files.unread,
    )
    return run, moments, files


def _records(path: Path, time: str) -> Iterator[Record]:
    """The lines as records, `time` being the field with their time. Lines that are none are left out."""
    if not path.is_file():
        return
    with path.open("rb") as lines:
        for number, line in enumerate(islice(lines, LINES_MAX), 1):
            fields = _json(line)
            if isinstance(fields, dict) and type(fields.get(time)) is int:
                yield Record(number, fields[time], line.strip())


def _seed(plan: Path) -> int | None:
    fields = _json(plan.read_bytes()) if plan.is_file() else None
    seed = fields.get("seed") if isinstance(fields, dict) else None
    return seed if type(seed) is int else None


def _command(folder: Path, *, simulated: bool) -> str:
    said = folder / COMMAND
    if said.is_file():
        return said.read_text(errors="replace").strip()
    return f"strandline-lab simulate --plan {folder / PLAN}" if simulated else ""


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
