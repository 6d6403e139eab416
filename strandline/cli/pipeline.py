"""`strandline pipeline`: jobs that read topics with Spark."""

from __future__ import annotations

import click

from strandline.cli.command import Group
from strandline.cli.pipeline_archive import archive
from strandline.cli.pipeline_audit import audit
from strandline.cli.pipeline_lifecycle import lifecycle
from strandline.cli.pipeline_ownership import ownership


@click.group(cls=Group)
def pipeline() -> None:
    """Jobs over topics with Spark: archive them, audit them, and see what became of them."""


for _command in (archive, audit, lifecycle, ownership):
    pipeline.add_command(_command)
