"""The `strandline` command with all its families."""

from __future__ import annotations

import click

from strandline.cli.acl.command import acl
from strandline.cli.cluster.balance import cluster
from strandline.cli.cluster.broker import broker
from strandline.cli.cluster.log import log
from strandline.cli.cluster.state_changes import state_changes
from strandline.cli.cluster.topic import topic
from strandline.cli.cluster.up_down import down, status, up
from strandline.cli.console import console
from strandline.cli.demo.command import demo
from strandline.cli.group.command import group
from strandline.cli.pipeline.command import pipeline
from strandline.cli.records.consume import consume
from strandline.cli.records.produce import produce
from strandline.cli.records.verify import verify
from strandline.cli.security.command import security
from strandline.cli.security.quota import quota
from strandline.cli.security.user import user
from strandline.cli.shell.command import Root, start
from strandline.cli.transaction.command import transaction

MOVED = {name: f"strandline-lab {name}" for name in ("chaos", "perf", "simulate")}
"""The laboratory is a distribution of its own, in the folder `lab` of the repository."""


@click.group(name="strandline", cls=Root, moved=MOVED)
@click.version_option(package_name="strandline", message="strandline %(version)s")
def cli() -> None:
    """A replicated commit log.

    Commands talk to the cluster that `strandline up` started in ./.strandline, unless --bootstrap,
    --dir, STRANDLINE_BOOTSTRAP or STRANDLINE_DIR (in this order) names another.
    """


for _command in (
    up, down, status, state_changes, cluster, broker, topic, group, transaction, acl, produce, consume,
    verify, log, pipeline, demo, security, user, quota, console,
):  # fmt: skip
    cli.add_command(_command)


def main() -> None:
    """Runs the command line and exits with its status."""
    start(cli)


if __name__ == "__main__":
    main()
