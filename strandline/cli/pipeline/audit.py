"""`strandline pipeline audit`: compares the clients' histories with the topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from strandline.auditing.checks import CHECKS, Finding
from strandline.cli.pipeline.spark import DIFFERS, connection_of, master_option, open_session
from strandline.cli.records.consume import isolation_option
from strandline.cli.shell.command import Command, Invocation, pass_invocation


@click.command("audit", cls=Command)
@click.argument(
    "histories",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="HISTORY…",
)
@click.option("--topic", "topics", required=True, multiple=True, help="Audit this topic; may be repeated.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, metavar="N",
    help="Maximum number of findings of each kind.",
)  # fmt: skip
@isolation_option
@master_option
@pass_invocation
def audit(
    invocation: Invocation,
    histories: Sequence[Path],
    topics: Sequence[str],
    limit: int,
    isolation: str,
    master: str,
) -> None:
    """Compare each HISTORY, written by a run of `strandline verify`, with the present topics.

    Finds records that are lost, duplicated, out of order, skipped, or present though they failed; offsets
    with two values; and high watermarks that went back. Exit status 2 if there is any finding. The HISTORY of
    a killed client may end in half a line. As JSON, a line is a finding.

    Give the --isolation that the readers had: those of committed records pass over the others rightly.
    """
    cluster = connection_of(invocation)
    spark = open_session(invocation, master, "audit", f"reading {', '.join(topics)}")
    from strandline.pipeline.jobs.audit import run

    try:
        found, silent = run(
            spark,
            cluster,
            list(dict.fromkeys(histories)),
            list(dict.fromkeys(topics)),
            limit,
            isolation=f"read_{isolation}",
        )
    finally:
        spark.stop()
    for history in silent:
        invocation.out.note(f"{history} has no events of {', '.join(topics)}")
    _show(invocation, found, limit)
    if found:
        click.get_current_context().exit(DIFFERS)


def _show(invocation: Invocation, found: Sequence[Finding], limit: int) -> None:
    if invocation.out.json:
        for finding in found:
            invocation.out.emit(finding._asdict())
        return
    if not found:
        invocation.out.line("nothing is wrong")
        return
    invocation.out.table(Finding._fields, found)
    counts = Counter(finding.check for finding in found)
    for check in CHECKS:
        if counts[check.name]:
            more = " or more" if counts[check.name] >= limit else ""
            invocation.out.note(f"{counts[check.name]}{more} {check.name}: {check.meaning}")
