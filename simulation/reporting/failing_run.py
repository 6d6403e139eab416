"""The folder of a failing run: its plan, what it showed, and the smallest plan that fails in the same way."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline.errors import SettingsError
from strandline.simulation.plan import Plan
from strandline.simulation.reporting.runs import Ran

PLAN: Final = "plan.json"
RESULT: Final = "result.json"


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder for one run. `write` makes it."""

    path: Path

    @property
    def plan(self) -> Path:
        return self.path / PLAN

    def write(self, ran: Ran) -> None:
        """Write the plan, for `--plan`, and what it showed. What was there is replaced. Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.plan.write_text(ran.plan.model_dump_json(indent=2) + "\n")
        (self.path / RESULT).write_text(json.dumps(result_of(ran), indent=2) + "\n")


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
    except ValueError as error:
        raise SettingsError(f"{path} is not a plan of a simulation: {error}") from None
