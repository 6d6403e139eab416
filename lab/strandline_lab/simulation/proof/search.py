"""Runs seeds until one shows a problem: `python -m strandline_lab.simulation.proof.search` in a mutated tree.

Writes one JSON object a line: the seed, its CPU seconds, and the first problem if it has one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection
from typing import Final

from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.reporting.runs import run_plan

CONSEQUENCES: Final = ("healing", "client", "convergence")
"""Checks that say that something did not work in time, and not which rule was broken."""


def suits(plan: Plan, faults: Collection[str], workloads: Collection[str]) -> bool:
    """True if the plan has one of these kinds of faults and one of these kinds of workloads."""
    return (not faults or any(fault.kind in faults for fault in plan.faults)) and (
        not workloads or any(workload.kind in workloads for workload in plan.workloads)
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--end", type=int, required=True, help="the seed after the last one")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--faults", nargs="*", default=())
    parser.add_argument("--workloads", nargs="*", default=())
    parser.add_argument("--consequences", action="store_true", help="count what did not work in time, too")
    args = parser.parse_args()
    out, sys.stdout = sys.stdout, sys.stderr  # a broken service may print
    for seed in range(args.first, args.end):
        plan = Plan.drawn(seed, args.seconds)
        if not suits(plan, args.faults, args.workloads):
            continue
        ran = run_plan(plan)
        problems = [each for each in ran.problems if args.consequences or each.check not in CONSEQUENCES]
        line = {"seed": seed, "cpu_s": round(ran.cpu_s, 1), "problem": problems[:1]}
        print(json.dumps(line), file=out, flush=True)
        if problems:
            return


if __name__ == "__main__":
    main()
