"""`strandline-lab simulate`: a real cluster in one thread, under faults, from one seed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from strandline.cli.shell.command import Command, Invocation, pass_invocation
from strandline.cli.shell.numbers import FiniteRange
from strandline.cli.shell.output import Output
from strandline.config.limits import SIMULATION_SEED_MAX

if TYPE_CHECKING:
    from strandline_lab.simulation.plan import Plan
    from strandline_lab.simulation.reporting.runs import Ran

FOUND: Final = 2
DRAWN_SEED_MAX: Final = 2**31 - 1
"""A seed that is drawn is short enough to be copied by hand."""
DEFAULT_OUT: Final = Path(".simulation")
SHRUNK_MAX: Final = 3
"""Failing plans of one command that are made smaller."""


@click.command(cls=Command)
@click.option("--seed", type=click.IntRange(0, SIMULATION_SEED_MAX), help="The first seed; default: random.")
@click.option("--seeds", type=click.IntRange(min=1), help="How many; they count up. Default: 1.")
@click.option(
    "--plan", "plan_file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Run the plan in this file instead of seeds.",
)  # fmt: skip
@click.option(
    "--seconds", type=FiniteRange(min=1, max=3600), metavar="S",
    help="Virtual seconds during which faults are done; healing comes after them. Default: 30.",
)  # fmt: skip
@click.option(
    "--within",
    type=FiniteRange(min=0),
    metavar="S",
    help="Begin no other seed after this time; one is run at least.",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Seeds that run at once."
)
@click.option(
    "--shrink-for", type=FiniteRange(min=0), default=120.0, show_default=True, metavar="S",
    help=f"CPU seconds to look for a smaller plan that fails; for the first {SHRUNK_MAX} failing seeds.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=DEFAULT_OUT, show_default=True,
    help="Folder for the folders of failing seeds, seed-N.",
)  # fmt: skip
@pass_invocation
def simulate(
    invocation: Invocation,
    seed: int | None,
    seeds: int | None,
    plan_file: Path | None,
    seconds: float | None,
    within: float | None,
    jobs: int,
    shrink_for: float,
    out: Path,
) -> None:
    """Run a cluster on virtual time in a world that a seed decides, and judge what its clients saw.

    The same seed gives the same run, and the same trace, on every machine with the same versions of
    strandline, Python and its packages. Each failing seed gets a folder with its plan, a smaller plan that
    fails in the same check, and a page about each. Exits with 0 if all is well, 2 if something was found.
    """
    if plan_file is not None and (seed, seeds, seconds) != (None, None, None):
        raise click.UsageError(
            "a plan has its own seed and time: --plan goes with no --seed, --seeds, --seconds"
        )
    if plan_file is not None:
        from strandline_lab.simulation.reporting.failing_run import read_plan

        plans, count = iter([read_plan(plan_file)]), 1
    else:
        count = 1 if seeds is None else seeds
        plans = _drawn(_first(seed, count), count, seconds)
    shown = _Shown(invocation.out, count)
    failed: list[tuple[Ran, Path]] = []
    for ran in shown.each(_begun_within(plans, within), jobs):
        if ran.sound:
            continue
        again = f"--seed {ran.plan.seed} --seconds {ran.plan.seconds:g}"
        folder = out / f"seed-{ran.plan.seed}"
        if plan_file is not None:
            again, folder = f"--plan {plan_file}", out / f"plan-{plan_file.stem}"
        _keep(invocation.out, ran, folder, again)
        failed.append((ran, folder))
    shown.end(len(failed))
    failed.sort(key=lambda each: each[0].plan.seed)
    for ran, folder in failed[: SHRUNK_MAX if shrink_for else 0]:
        _shrink(invocation.out, ran, folder, shrink_for)
    if failed:
        click.get_current_context().exit(FOUND)


def _first(seed: int | None, count: int) -> int:
    import secrets

    first = secrets.randbelow(DRAWN_SEED_MAX) if seed is None else seed
    if (last := first + count - 1) > SIMULATION_SEED_MAX:
        raise click.UsageError(
            f"{count} seeds from {first} on end at {last}, and the largest is {SIMULATION_SEED_MAX}: "
            "lower --seed or --seeds"
        )
    return first


def _drawn(first: int, count: int, seconds: float | None) -> Iterator[Plan]:
    from strandline_lab.simulation.plan import SECONDS, Plan

    for seed in range(first, first + count):
        yield Plan.drawn(seed, SECONDS if seconds is None else seconds)


def _begun_within(plans: Iterable[Plan], seconds: float | None) -> Iterator[Plan]:
    from strandline.adapters.system.clock import SystemClock

    clock = SystemClock()
    ends = clock.monotonic() + (float("inf") if seconds is None else seconds)
    for plan in plans:
        yield plan
        if clock.monotonic() >= ends:
            return


@dataclass(slots=True)
class _Shown:
    """Shows each run as it ends, and how many have ended."""

    out: Output
    count: int
    ended: int = 0
    failed: int = 0
    counts: bool = field(default_factory=sys.stderr.isatty)
    """A counter stands on the terminal: then sound runs have no lines of their own."""

    def each(self, plans: Iterable[Plan], jobs: int) -> Iterator[Ran]:
        from strandline_lab.simulation.reporting.runs import run_plans

        self._counter()
        for ran in run_plans(plans, jobs=jobs):
            self.ended += 1
            self.failed += not ran.sound
            self._clear()
            self._show(ran)
            yield ran
            self._counter()

    def end(self, failed: int) -> None:
        self._clear()
        if self.ended > 1 or self.ended < self.count:
            self.out.note(f"{self.ended} of {self.count} seeds were run, {failed} failed")

    def _counter(self) -> None:
        if self.counts:
            sys.stderr.write(f"{self.ended} of {self.count} seeds, {self.failed} failed")
            sys.stderr.flush()

    def _clear(self) -> None:
        if self.counts:
            sys.stderr.write("\r\x1b[K")

    def _show(self, ran: Ran) -> None:
        """One line for a sound run; for another one its faults and what was found too."""
        from strandline_lab.simulation.reporting.failing_run import result_of

        if self.out.json:
            self.out.emit(result_of(ran), flush=True)
            return
        if ran.sound and self.counts and self.count > 1:
            return
        for line in _lines(ran):
            self.out.line(line)
        sys.stdout.flush()


def _lines(ran: Ran) -> Iterator[str]:
    said = "sound" if ran.sound else f"{len(ran.problems)} problems"
    outcome = ran.outcome
    if outcome is None:
        yield f"seed {ran.plan.seed}: {said}"
    else:
        done = ", ".join(f"{count} {name}" for name, count in outcome.counts.items())
        yield (
            f"seed {ran.plan.seed}: {said}; {outcome.virtual_s:.1f} s, {done}, "
            f"{len(ran.plan.faults)} faults, trace {outcome.trace}"
        )
    if not ran.sound and outcome is not None:
        yield from (f"  {each}" for each in outcome.steps)
    for check, sentence in ran.problems:
        yield from (f"  {line}" for line in f"{check}: {sentence}".splitlines())


def _keep(out: Output, ran: Ran, folder: Path, again: str) -> None:
    """Write the folder of a failing run as soon as it has ended, and say how to run it again."""
    from strandline_lab.simulation.reporting.failing_run import Folder

    say = out.note if out.json else out.line
    say(f"seed {ran.plan.seed} failed: {ran.problems[0].check}")
    again = f"strandline-lab simulate {again}"
    say(f"  to run it again: {again}")
    _say_page(say, Folder(folder).write(ran, again))


def _shrink(out: Output, ran: Ran, folder: Path, shrink_s: float) -> None:
    """Look for a smaller plan that fails in the same check, write its folder, and say how to run it."""
    from strandline_lab.simulation.reporting.failing_run import Folder
    from strandline_lab.simulation.reporting.runs import run_plan
    from strandline_lab.simulation.reporting.shrink import shrink

    say = out.note if out.json else out.line
    shrunk = shrink(ran, run_plan, cpu_s_max=shrink_s)
    smallest = Folder(folder / "shrunk")
    again = f"strandline-lab simulate --plan {smallest.plan}"
    left = f"{len(shrunk.ran.plan.faults)} of {len(ran.plan.faults)} faults, {shrunk.ran.plan.seconds:g} s"
    say(f"seed {ran.plan.seed}: the smallest plan of {shrunk.runs} runs ({left}): {again}")
    _say_page(say, smallest.write(shrunk.ran, again))


def _say_page(say: Callable[[str], None], page: Path | str) -> None:
    say(f"  its page: {page}" if isinstance(page, Path) else f"  it has no page: {page}")
