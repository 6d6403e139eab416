"""The `strandline-lab` command."""

from __future__ import annotations

import click

from strandline.cli.shell.command import Root, start
from strandline_lab.cli.chaos import chaos
from strandline_lab.cli.simulate import simulate
from strandline_lab.perf.command import perf


@click.group(name="strandline-lab", cls=Root)
@click.version_option(package_name="strandline-lab", message="strandline-lab %(version)s")
def cli() -> None:
    """Measures strandline, and tries to break it.

    `perf` uses the cluster that `strandline` uses; `chaos` and `simulate` make clusters of their own.
    """


for _command in (chaos, perf, simulate):
    cli.add_command(_command)


def main() -> None:
    """Runs the command line and exits with its status."""
    start(cli)


if __name__ == "__main__":
    main()
