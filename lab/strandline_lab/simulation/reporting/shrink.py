"""Makes a failing plan smaller: runs what `smaller` proposes, within bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.reporting.runs import Ran
from strandline_lab.simulation.reporting.smaller import smaller_plans

RUNS_MAX: Final = 200
CPU_S_MAX: Final = 300.0
"""CPU time of all runs of one search, but for the last of them."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What a search has found."""

    ran: Ran
    """The smallest plan that fails in the same check, and what it showed."""
    runs: int
    cpu_s: float
    whole: bool
    """Nothing more could be left out. False: the search came to a bound."""


def shrink(
    failed: Ran,
    run: Callable[[Plan], Ran],
    *,
    runs_max: int = RUNS_MAX,
    cpu_s_max: float = CPU_S_MAX,
) -> Shrunk:
    """Search for the smallest plan that fails as `failed` does: in the check of its first problem."""
    check = failed.problems[0].check
    smallest, runs, cpu_s = failed, 0, 0.0
    search = smaller_plans(failed.plan)
    try:
        proposal = next(search)
        while runs < runs_max and cpu_s < cpu_s_max:
            ran = run(proposal)
            runs += 1
            cpu_s += ran.cpu_s
            fails = any(problem.check == check for problem in ran.problems)
            if fails:
                smallest = ran
            proposal = search.send(fails)
    except StopIteration:
        return Shrunk(smallest, runs, cpu_s, whole=True)
    return Shrunk(smallest, runs, cpu_s, whole=False)
