"""Looks for a seed that shows a mutation, in a copy of the code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.proof.copies import PACKAGE, copied_tree
from strandline_lab.simulation.proof.mutation import Mutation
from strandline_lab.simulation.proof.search import suits

SEEDS: Final = 1_000
SECONDS: Final = 12.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of a mutation."""

    mutation: Mutation
    tried: int = 0
    """How many seeds were run."""
    cpu_s: float = 0.0
    seed: int | None = None
    """The seed that found it; None if none did."""
    check: str = ""
    """Which rule the judge found broken."""
    sentence: str = ""


def look_for(
    mutation: Mutation,
    seeds: int = SEEDS,
    seconds: float = SECONDS,
    first: int = 0,
    report: Callable[[Seen], object] = lambda _: None,
) -> Seen:
    """Run seeds against the mutated code until one shows a problem that the code at hand does not have.

    `report` gets the state after each seed.
    """
    seen = Seen(mutation)
    choice = ["--seconds", str(seconds), "--faults", *mutation.faults, "--workloads", *mutation.workloads]
    if mutation.stalls:
        choice.append("--consequences")
    with copied_tree() as tree:
        mutation.apply(tree)
        seed = first
        while seed < first + seeds:
            for line in _search(tree, ["--first", str(seed), "--end", str(first + seeds), *choice]):
                seen = replace(seen, tried=seen.tried + 1, cpu_s=seen.cpu_s + line["cpu_s"])
                report(seen)
                if line["problem"]:
                    break
            else:
                return seen
            seed = line["seed"] + 1
            if all(not each["problem"] for each in _search(PACKAGE.parent, [*_only(line["seed"]), *choice])):
                [[check, sentence]] = line["problem"]
                return replace(seen, seed=line["seed"], check=check, sentence=sentence)
    return seen


def look_again(mutation: Mutation, seconds: float = SECONDS) -> Seen:
    """Run the recorded seed only; `tried` is how many a search from seed 0 runs until it comes to it."""
    if mutation.seed is None:
        return Seen(mutation)
    plans = (Plan.drawn(seed, seconds) for seed in range(mutation.seed + 1))
    tried = sum(suits(plan, mutation.faults, mutation.workloads) for plan in plans)
    return replace(look_for(mutation, 1, seconds, mutation.seed), tried=tried)


def _only(seed: int) -> list[str]:
    return ["--first", str(seed), "--end", str(seed + 1)]


def _search(tree: Path, arguments: Sequence[str]) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-m", "strandline_lab.simulation.proof.search", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    with subprocess.Popen(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            for line in child.stdout:
                yield json.loads(line)
        except BaseException:
            child.kill()
            raise
    if child.returncode:
        raise RuntimeError(f"the search of {tree} ended with {child.returncode}")
