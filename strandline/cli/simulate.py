"""`strandline simulate`: real brokers, controllers and clients in one thread, under faults, from one seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from strandline.cli.shell.command import Command, Invocation, pass_invocation
from strandline.cli.shell.numbers import FiniteRange

if TYPE_CHECKING:
    from strandline.simulation.run import Outcome

FOUND = 2
SEED_MAX = 2**31 - 1


@click.command(cls=Command)
@click.option("--seed", type=click.IntRange(0, SEED_MAX), help="Run this one; default: any.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="Seeds count up.")
@click.option(
    "--seconds", type=FiniteRange(min=1, max=3600), default=30.0, show_default=True, metavar="S",
    help="Virtual seconds during which faults are done; healing comes after them.",
)  # fmt: skip
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes.")
@pass_invocation
def simulate(invocation: Invocation, seed: int | None, seeds: int, seconds: float, jobs: int) -> None:
    """Run a cluster on virtual time in a world that a seed decides, and judge what its clients saw.

    The same seed gives the same run, and the same trace, on every machine. Exits with 0 if all is well, 2 if
    something was found.
    """
    import secrets

    first = secrets.randbelow(SEED_MAX) if seed is None else seed
    well = True
    for outcome in _outcomes(range(first, first + seeds), seconds, jobs):
        well = well and not outcome.problems
        _show(invocation, outcome)
    if not well:
        click.get_current_context().exit(FOUND)


def _outcomes(seeds: Iterable[int], seconds: float, jobs: int) -> Iterator[Outcome]:
    """In the order of the seeds."""
    from concurrent.futures import ProcessPoolExecutor

    from strandline.simulation.plan import Plan
    from strandline.simulation.run import run_quietly

    plans = [Plan.drawn(seed, seconds) for seed in seeds]
    if jobs == 1:
        yield from map(run_quietly, plans)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run_quietly, plans)


def _show(invocation: Invocation, outcome: Outcome) -> None:
    """One line for a sound run; for another one its faults and what was found too."""
    out = invocation.out
    if out.json:
        out.emit(
            {
                "seed": outcome.plan.seed,
                "ok": not outcome.problems,
                "trace": outcome.trace,
                "virtual_s": round(outcome.virtual_s, 3),
                "counts": outcome.counts,
                "faults": list(outcome.done),
                "problems": [problem._asdict() for problem in outcome.problems],
            },
            flush=True,
        )
        return
    done = ", ".join(f"{count} {name}" for name, count in outcome.counts.items())
    said = f"{len(outcome.problems)} problems" if outcome.problems else "sound"
    out.line(
        f"seed {outcome.plan.seed}: {said}; {outcome.virtual_s:.1f} s, {done}, "
        f"{len(outcome.plan.faults)} faults, trace {outcome.trace}"
    )
    if outcome.problems:
        for line in outcome.done:
            out.line(f"  {line}")
        for check, sentence in outcome.problems:
            out.line(f"  {check}: {sentence}")
