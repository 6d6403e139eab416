"""`strandline simulate`: real brokers, controllers and clients in one thread, under faults, from one seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import click

from strandline.cli.shell.command import Command, Invocation, pass_invocation
from strandline.cli.shell.numbers import FiniteRange

if TYPE_CHECKING:
    from strandline.simulation.seeded_run import Outcome

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

    from strandline.simulation.seeded_run import run_quietly

    work = partial(run_quietly, seconds=seconds)
    if jobs == 1:
        yield from map(work, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(work, seeds)


def _show(invocation: Invocation, outcome: Outcome) -> None:
    """One line for a sound run; for another one its faults and what was found too."""
    out = invocation.out
    if out.json:
        out.emit(
            {
                "seed": outcome.seed,
                "ok": not outcome.problems,
                "trace": outcome.trace,
                "virtual_s": round(outcome.virtual_s, 3),
                "records": outcome.records,
                "faults": outcome.faults,
                "problems": outcome.problems,
            },
            flush=True,
        )
        return
    said = f"{len(outcome.problems)} problems" if outcome.problems else "sound"
    out.line(
        f"seed {outcome.seed}: {said}; {outcome.virtual_s:.1f} s, {outcome.records} records, "
        f"{len(outcome.faults)} faults, trace {outcome.trace}"
    )
    if outcome.problems:
        for line in (*outcome.faults, *outcome.problems):
            out.line(f"  {line}")
