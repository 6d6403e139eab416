"""`strandline log`: reads segment files without a cluster."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.cli.shell.command import FAILED, Group, Invocation, pass_invocation
from strandline.cli.shell.output import shown

path_argument = click.argument("path", type=click.Path(exists=True, path_type=Path))


@click.group(cls=Group)
def log() -> None:
    """Read segment files without a cluster."""


@log.command()
@path_argument
@click.option("--records", is_flag=True, help="Also show the records of each batch.")
@pass_invocation
def dump(invocation: Invocation, path: Path, records: bool) -> None:
    """Show the batches of a segment file, or of all segments of a partition's folder."""
    from strandline.broker.storage import inspect

    found = False
    for batch in inspect.dump(path, files=SYSTEM_FILES):
        found = True
        invocation.out.show(asdict(batch))
        if not records:
            continue
        for record in inspect.records(batch, files=SYSTEM_FILES):
            facts = {"offset": record.offset, "timestamp": record.timestamp}
            invocation.out.show(facts | shown("key", record.key) | shown("value", record.value), indent="  ")
    if not found:
        invocation.out.note(f"{path}: no batches here")


@log.command()
@path_argument
@pass_invocation
def verify(invocation: Invocation, path: Path) -> None:
    """Check every batch of a segment file or a partition's folder; exits with 1 if one is damaged."""
    from strandline.broker.storage import inspect

    findings = list(inspect.verify(path, files=SYSTEM_FILES))
    for finding in findings:
        invocation.out.show(asdict(finding))
    if not findings and not invocation.out.json:
        invocation.out.line(f"{path}: no fault found")
    if findings:
        click.get_current_context().exit(FAILED)
