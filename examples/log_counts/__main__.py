"""Counts lines of logs by user and by component, on any number of members.

\b
    strandline up
    python -m examples.log_counts feed         writes the lines
    python -m examples.log_counts run &        a member; start more of them, kill some
    python -m examples.log_counts check        compares the counts with those of a plain loop
    python -m examples.log_counts scale        one member, three, two, and a kill -9; then the check

Lines are those of `--data FOLDER` (its *.log files), or movie ratings from PySpark's wheel. A cluster
other than the local one is named by --bootstrap, and the settings of its clients by --command-config.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from pathlib import Path

import click

from examples.log_counts.checking import check
from examples.log_counts.cluster import Cluster, cluster_options
from examples.log_counts.counting import application
from examples.log_counts.feeding import feed
from examples.log_counts.lines import lines_in
from examples.log_counts.scaling import scale
from strandline.adapters.system.clock import SystemClock
from strandline.errors import StrandlineError
from strandline.streams import Streams, run

FAILED = 1


data_option = click.option(
    "--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A folder with *.log files."
)
timeout_option = click.option("--timeout", default=60.0, show_default=True, help="Seconds to wait at most.")


@click.group(help=__doc__)
def cli() -> None:
    logging.basicConfig(level=logging.ERROR, format="%(asctime)s %(name)s %(message)s")


@cli.command(name="feed")
@cluster_options
@data_option
def feed_command(cluster: Cluster, data: Path | None) -> None:
    """Write every line once."""
    print(f"{asyncio.run(feed(cluster, list(lines_in(data)))):,} lines are written.")


@cli.command(name="run")
@cluster_options
@click.option(
    "--state-dir", type=click.Path(file_okay=False, path_type=Path), default=Path(".log-counts"),
    show_default=True, help="Where this member keeps its state.",
)  # fmt: skip
def run_command(cluster: Cluster, state_dir: Path) -> None:
    """Run a member until SIGTERM or Ctrl-C; then hand everything over, and end."""
    asyncio.run(member(application(cluster, state_dir)))


async def member(app: Streams) -> None:
    """Runs the member, and prints the changes of its tasks."""
    async with asyncio.TaskGroup() as tasks:
        showing = tasks.create_task(show_tasks(app))
        await run(app)
        showing.cancel()
    print("Everything is handed over.")


async def show_tasks(app: Streams) -> None:
    """Prints a line when the member begins or ends a task."""
    clock = SystemClock()
    shown = ""
    while True:
        roles: dict[str, list[str]] = {}
        for status in sorted(app.tasks(), key=lambda status: status.task):
            roles.setdefault(status.role, []).append(str(status.task))
        now = "; ".join(f"{role} {', '.join(tasks)}" for role, tasks in sorted(roles.items(), reverse=True))
        if now != shown:
            print(now or "nothing to run", flush=True)
            shown = now
        await clock.sleep(0.2)


@cli.command(name="check")
@cluster_options
@timeout_option
def check_command(cluster: Cluster, timeout: float) -> None:
    """Compare the counts with those of a plain loop over all lines; exits with 1 if they differ."""
    conclude(asyncio.run(check(cluster, timeout)), timeout)


@cli.command(name="scale")
@cluster_options
@data_option
@timeout_option
def scale_command(cluster: Cluster, data: Path | None, timeout: float) -> None:
    """Start members, kill one, let one leave, while lines arrive; then check."""
    monotonic = SystemClock().monotonic
    began = monotonic()

    def show_line(sentence: str) -> None:
        print(f"{monotonic() - began:5.1f} s  {sentence}", flush=True)

    with tempfile.TemporaryDirectory(prefix="log-counts-") as folder:
        alike = asyncio.run(scale(cluster, Path(folder), list(lines_in(data)), show_line, timeout))
    conclude(alike, timeout)


def conclude(alike: bool, timeout_s: float) -> None:
    """Prints the last line, and exits with the status."""
    if not alike:
        print(f"\nThe counts still differ after {timeout_s:.0f} s: does a member run?")
        sys.exit(FAILED)
    print("\nEvery line was counted exactly once.")


def main() -> None:
    """Runs the command line. An error prints one sentence."""
    try:
        cli()
    except* (StrandlineError, OSError) as failures:
        error: BaseException = failures
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        print(f"error: {error}", file=sys.stderr)
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
