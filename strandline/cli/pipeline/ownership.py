"""`strandline pipeline ownership`: shows the owners of partitions over time, and overlaps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from strandline.cli.pipeline.lifecycle import chart_option, moment
from strandline.cli.pipeline.spark import (
    DIFFERS,
    FEW,
    connection_of,
    master_option,
    open_session,
    topic_exists,
)
from strandline.cli.shell.command import Command, Invocation, pass_invocation
from strandline.ids import GROUP_EVENTS_TOPIC

if TYPE_CHECKING:
    from strandline.pipeline.jobs.ownership import Ownership


@click.command("ownership", cls=Command)
@click.option("--group", metavar="G", help="Only this group.")
@chart_option
@click.option(
    "--limit", type=click.IntRange(min=0), default=40, show_default=True, metavar="N",
    help="Number of timeline lines to show, the newest; JSON has all.",
)  # fmt: skip
@master_option
@pass_invocation
def ownership(invocation: Invocation, group: str | None, chart: Path | None, limit: int, master: str) -> None:
    """Show the owners of partitions over time, times without an owner, and rebalances by reason.

    Reads the topic __group_events. If a partition had two owners at one time, reports it, with exit status 2.
    As JSON, a line is a time that a member owned a partition (owned), one without an owner (unowned), one
    with several (overlap), a partition (partition), or a reason for rebalances (rebalances).
    """
    cluster = connection_of(invocation)
    spark = open_session(invocation, master, "ownership", f"reading {GROUP_EVENTS_TOPIC}", **FEW)
    from strandline.pipeline.jobs.ownership import run

    try:
        if not topic_exists(invocation, GROUP_EVENTS_TOPIC):
            invocation.out.note("nothing has happened to a group yet")
            return
        found = run(spark, cluster, group)
    finally:
        spark.stop()
    if chart is not None:
        from strandline.pipeline.jobs.charts import ownership_chart

        ownership_chart(chart, found.timeline, found.overlaps, found.rebalances, found.last_ms)
        invocation.out.note(f"drawn: {chart}")
    _show(invocation, found, limit)
    if found.overlaps:
        click.get_current_context().exit(DIFFERS)


def _show(invocation: Invocation, found: Ownership, limit: int) -> None:
    out = invocation.out
    if out.json:
        for what, rows in (
            ("partition", found.partitions), ("owned", found.timeline), ("unowned", found.gaps),
            ("overlap", found.overlaps), ("rebalances", found.reasons),
        ):  # fmt: skip
            for row in rows:
                out.emit({"what": what, **row.asDict()})
        return
    if not found.partitions:
        out.line("no partition has had an owner yet")
        return
    out.table(
        ("group", "partition", "owners", "changes", "without ms", "longest ms", "owner now"),
        [
            (row.group, f"{row.topic}-{row.partition}", row.owners, row.changes, row.unowned_ms,
             row.unowned_max_ms, row.owner)
            for row in found.partitions
        ],
    )  # fmt: skip
    if limit:
        newest = sorted(found.timeline, key=lambda row: (row.from_ms or 0, row.to_ms or 0))[-limit:]
        out.line("")
        out.table(
            ("from", "to", "group", "partition", "owner", "ended"),
            [
                (moment(row.from_ms), moment(row.to_ms), row.group, f"{row.topic}-{row.partition}", row.owner,
                 _ended(row.ended, row.reason))
                for row in newest
            ],
        )  # fmt: skip
    out.line("")
    out.table(
        ("group", "rebalances", "finished", "p50 ms", "max ms", "total ms", "reason"),
        [
            (row.group, row.rebalances, row.finished, row.p50_ms, row.max_ms, row.total_ms, row.reason)
            for row in found.reasons
        ],
    )
    for row in found.overlaps:
        until = "until now" if row.to_ms is None else f"to {moment(row.to_ms)}"
        who = ", ".join(row.owners)
        name = f"{row.topic}-{row.partition} of {row.group}"
        out.line(f"two owners: {name} from {moment(row.from_ms)} {until}: {who}")


def _ended(how: str | None, reason: str | None) -> str | None:
    return how if reason is None else f"{how}: {reason}"
