"""Measures how costs grow with the size of the work, and prints the exponent between each two sizes.

`python -m strandline_lab.bench.scale.curves [--of partitions,…] [--sizes 100,1000] [--results FILE]` chooses.
With a file, the steps are kept in it beside those of other dimensions, for `pictures.py`.
A series ends early when a step takes more than STEP_S_MAX, or a part of it more than that may take.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from strandline_lab.bench.report import heading, number, table
from strandline_lab.bench.scale import connections, groups, members, moves, partitions, topics
from strandline_lab.bench.scale.results import keep
from strandline_lab.bench.scale.series import Dimension, Step, exponent_of_n_log_n, exponents

STEP_S_MAX: Final = 900.0

DIMENSIONS: Final = {
    dimension.name: dimension
    for dimension in (
        partitions.DIMENSION,
        partitions.SINGLE,
        topics.DIMENSION,
        moves.DIMENSION,
        connections.DIMENSION,
        groups.DIMENSION,
        members.DIMENSION,
    )
}


async def measure(runs: int = 1) -> None:
    """Prints the table of each dimension, `runs` times."""
    for _ in range(runs):
        for dimension in DIMENSIONS.values():
            await one_series(dimension, None)


async def one_series(dimension: Dimension, results: Path | None) -> None:
    """Measures one dimension, and prints its table. Each step is kept as soon as it is there."""
    heading(dimension.title, "scale_curves")
    steps: list[Step] = []
    for size in dimension.sizes:
        limit = asyncio.timeout(STEP_S_MAX)
        try:
            print(f"{size:,} {dimension.name}", file=sys.stderr, flush=True)
            async with limit:
                steps.append(Step(size, await dimension.measure(size)))
        except TimeoutError:
            why = f"took more than {STEP_S_MAX:.0f} s" if limit.expired() else "had a part that took too long"
            print(f"{size:,} {dimension.name} {why}: the series ends here\n")
            break
        if results is not None:
            keep(results, dimension.name, steps)
    show(dimension, steps)


def show(dimension: Dimension, steps: Sequence[Step]) -> None:
    """Prints a row for each figure, with the exponents of those that are costs of all the work."""
    rows = [
        [
            figure.head,
            *(number(step.figures[name]) for step in steps),
            ", ".join(map(_exponent, exponents(steps, name))) if figure.total else "",
        ]
        for name, figure in dimension.figures.items()
    ]
    bars = [exponent_of_n_log_n(one.size, other.size) for one, other in pairwise(steps)]
    rows.append(["n log n", *("" for _ in steps), ", ".join(map(_exponent, bars))])
    table(["", *(f"{step.size:,}" for step in steps), "exponents"], rows)


def _exponent(k: float | None) -> str:
    return "–" if k is None else f"{k:.2f}"


def main() -> None:
    """Reads what to measure from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--of", default=",".join(DIMENSIONS), help="dimensions, separated by commas")
    parser.add_argument("--sizes", help="sizes, separated by commas; default: those of each dimension")
    parser.add_argument("--results", type=Path, help="a JSON file that keeps the steps")
    given = parser.parse_args()
    for name in given.of.split(","):
        dimension = DIMENSIONS[name]
        if given.sizes is not None:
            dimension = replace(dimension, sizes=[int(size) for size in given.sizes.split(",")])
        asyncio.run(one_series(dimension, given.results))


if __name__ == "__main__":
    main()
