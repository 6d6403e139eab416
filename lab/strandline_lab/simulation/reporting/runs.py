"""Runs of many plans, each with what it showed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.reporting.processes import Ended, each_in_a_process
from strandline_lab.simulation.run import Outcome, run_quietly

CPU_S_MAX: Final = 180.0
"""CPU time of one run. Most take seconds."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A run that has ended."""

    plan: Plan
    problems: tuple[Problem, ...]
    outcome: Outcome | None
    """None if its process crashed or hung."""
    cpu_s: float

    @property
    def sound(self) -> bool:
        return not self.problems


def run_plans(
    plans: Iterable[Plan],
    *,
    jobs: int = 1,
    cpu_s_max: float = CPU_S_MAX,
    play: Callable[[Plan], Outcome] = run_quietly,
) -> Iterator[Ran]:
    """Run plans, `jobs` at once, each in a process of its own. Yields in the order in which they end.

    A run that crashes, or takes more than `cpu_s_max`, has a problem that says so.
    """
    for ended in each_in_a_process(play, plans, jobs=jobs, cpu_s_max=cpu_s_max):
        yield _ran(ended)


def run_plan(plan: Plan) -> Ran:
    """Run one plan, in a process of its own."""
    [ran] = run_plans([plan])
    return ran


def _ran(ended: Ended[Plan, Outcome]) -> Ran:
    if ended.failure is not None:
        problem = Problem(ended.failure.kind, ended.failure.reason)
        return Ran(ended.given, (problem,), None, ended.cpu_s)
    assert ended.result is not None
    return Ran(ended.given, ended.result.problems, ended.result, ended.cpu_s)
