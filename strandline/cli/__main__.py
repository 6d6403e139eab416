"""The `strandline` command with all its families."""

from __future__ import annotations

import os
from typing import Final

import click

from strandline.cli.broker import broker
from strandline.cli.chaos import chaos
from strandline.cli.cluster import down, status, up
from strandline.cli.command import Root
from strandline.cli.consume import consume
from strandline.cli.demo import demo
from strandline.cli.group import group
from strandline.cli.log import log
from strandline.cli.perf import perf
from strandline.cli.pipeline import pipeline
from strandline.cli.produce import produce
from strandline.cli.state_changes import state_changes
from strandline.cli.topic import topic
from strandline.cli.verify import verify

STDERR: Final = 2


@click.group(cls=Root)
@click.version_option(package_name="strandline", message="strandline %(version)s")
def cli() -> None:
    """A replicated commit log.

    Commands talk to the cluster that `strandline up` started in ./.strandline, unless --bootstrap,
    --dir, STRANDLINE_BOOTSTRAP or STRANDLINE_DIR (in this order) names another.
    """


for _command in (
    up, down, status, state_changes, broker, topic, group, produce, consume, verify, log, perf, pipeline,
    demo, chaos,
):  # fmt: skip
    cli.add_command(_command)


def main() -> None:
    """Run the command line and exit with its status."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its C core prints lines that are not for users
    _open_standard_streams()
    cli()


def _open_standard_streams() -> None:
    """Put /dev/null where a standard stream is closed.

    Else the event loop's own descriptors would be given these numbers, and libuv aborts when it closes one.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


if __name__ == "__main__":
    main()
