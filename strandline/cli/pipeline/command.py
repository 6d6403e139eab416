"""`strandline pipeline`: jobs that read topics with Spark."""

from __future__ import annotations

import click

from strandline.cli.pipeline.archive import archive
from strandline.cli.pipeline.audit import audit
from strandline.cli.pipeline.lifecycle import lifecycle
from strandline.cli.pipeline.ownership import ownership
from strandline.cli.shell.command import Group


@click.group(cls=Group)
def pipeline() -> None:
    """Jobs over topics with Spark: archive topics, audit them, and analyse events."""


for _command in (archive, audit, lifecycle, ownership):
    pipeline.add_command(_command)
