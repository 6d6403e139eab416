"""The folder of a failing run: its plan, what it showed, and the smallest plan that fails in the same way."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from strandline.errors import SettingsError
from strandline_lab.report.page import REPORT
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.reporting.page import PageOf, write_page
from strandline_lab.simulation.reporting.processes import each_in_a_process
from strandline_lab.simulation.reporting.runs import CPU_S_MAX, Ran

PLAN: Final = "plan.json"
RESULT: Final = "result.json"
PACKAGES: Final = ("strandline", "cramjam")
"""On whose versions, and Python's, a trace depends: what asyncio does, and the bytes that a codec makes."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder for one run. `write` makes it."""

    path: Path

    @property
    def plan(self) -> Path:
        return self.path / PLAN

    def write(self, ran: Ran, command: str) -> Path | str:
        """Write the plan, for `--plan`, what it showed, and a page. What was there is replaced.

        `command` runs the plan again. Returns the path of the page, or why there is none. Raises OSError.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        self.plan.write_text(ran.plan.model_dump_json(indent=2) + "\n")
        versions = {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
        result = {**result_of(ran), "versions": versions}
        (self.path / RESULT).write_text(json.dumps(result, indent=2) + "\n")
        if ran.outcome is None:
            return "its process did not come to its end"
        page = PageOf(ran.plan, command, self.path)
        [ended] = each_in_a_process(write_page, [page], jobs=1, cpu_s_max=CPU_S_MAX)
        return ended.failure.reason if ended.failure is not None else self.path / REPORT


def result_of(ran: Ran) -> dict[str, object]:
    """What a run showed, as JSON values."""
    outcome = ran.outcome
    return {
        "seed": ran.plan.seed,
        "ok": ran.sound,
        "trace": None if outcome is None else outcome.trace,
        "virtual_s": None if outcome is None else round(outcome.virtual_s, 3),
        "cpu_s": round(ran.cpu_s, 2),
        "counts": {} if outcome is None else outcome.counts,
        "faults": [] if outcome is None else list(outcome.steps),
        "problems": [problem._asdict() for problem in ran.problems],
    }


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises SettingsError, OSError."""
    try:
        return Plan.model_validate_json(path.read_bytes())
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise SettingsError(f"{path} is not a plan of a simulation: {wrong}") from None
