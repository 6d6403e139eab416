"""`strandline pipeline lifecycle`: shows how long state-change requests take, and which never ended."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strandline.cli.pipeline.spark import FEW, connection_of, master_option, open_session, topic_exists
from strandline.cli.shell.command import Command, Invocation, pass_invocation
from strandline.ids import STATE_CHANGES_TOPIC
from strandline.report.text.durations import age

if TYPE_CHECKING:
    from strandline.pipeline.jobs.lifecycle import Lifecycle

chart_option = click.option(
    "--chart", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.png", help="Also draw a chart."
)


@click.command("lifecycle", cls=Command)
@chart_option
@click.option(
    "--limit", type=click.IntRange(min=0), default=20, show_default=True, metavar="N",
    help="Number of requests without an end to show, the oldest first.",
)  # fmt: skip
@master_option
@pass_invocation
def lifecycle(invocation: Invocation, chart: Path | None, limit: int, master: str) -> None:
    """Show by broker and command how long state changes took, which ones wait, and which never ended.

    Reads the topic __state_changes. Times are from the request until its broker accepted it (wait), from then
    to completion (work), and from the request to completion (total). As JSON, a line is one broker and
    command (latency), a step of a broker's backlog (backlog), or a request without an end (unended).
    """
    cluster = connection_of(invocation)
    spark = open_session(invocation, master, "lifecycle", f"reading {STATE_CHANGES_TOPIC}", **FEW)
    from strandline.adapters.system.clock import SystemClock
    from strandline.pipeline.jobs.lifecycle import run

    try:
        if not topic_exists(invocation, STATE_CHANGES_TOPIC):
            invocation.out.note("no state change was requested yet")
            return
        now_ms = SystemClock().wall_ms()
        found = run(spark, cluster, now_ms, limit)
    finally:
        spark.stop()
    if chart is not None:
        from strandline.pipeline.jobs.charts import lifecycle_chart

        lifecycle_chart(chart, found.latencies, found.backlog, found.open, now_ms)
        invocation.out.note(f"drawn: {chart}")
    _show(invocation, found)


def _show(invocation: Invocation, found: Lifecycle) -> None:
    out = invocation.out
    if found.backwards:
        out.note(f"requests with a step before the one it follows, because clocks differ: {found.backwards}")
    if out.json:
        for what, rows in (
            ("latency", found.latencies),
            ("backlog", found.backlog),
            ("unended", found.unended),
        ):
            for row in rows:
                out.emit({"what": what, **row.asDict()})
        return
    out.table(
        (
            "broker", "command", "requests", "completed", "superseded", "failed", "open",
            "wait p50 p95 max ms", "work p50 p95 max ms", "total p50 p95 max ms",
        ),
        [
            (
                row.broker, row.command, row.requests, row.completed, row.superseded, row.failed, row.open,
                _three(row.wait_p50_ms, row.wait_p95_ms, row.wait_max_ms),
                _three(row.work_p50_ms, row.work_p95_ms, row.work_max_ms),
                _three(row.total_p50_ms, row.total_p95_ms, row.total_max_ms),
            )
            for row in found.latencies
        ],
    )  # fmt: skip
    if found.peaks:
        out.line("")
        out.table(
            ("broker", "backlog now", "at most", "first at"),
            [(row.broker, row.waiting, row.waiting_max, moment(row.at_ms)) for row in found.peaks],
        )
    if found.open:
        more = f", the {len(found.unended)} oldest" if len(found.unended) < found.open else ""
        out.line("")
        out.line(f"requests without an end: {found.open}{more}")
        out.table(
            ("age", "broker", "command", "partition", "state", "reason"),
            [
                (
                    age(row.age_ms),
                    row.broker,
                    row.command,
                    f"{row.topic}-{row.partition}",
                    row.state,
                    row.reason,
                )
                for row in found.unended
            ],
        )


def _three(half: float | None, most: float | None, longest: float | None) -> str | None:
    return None if half is None else f"{half:.0f} {most:.0f} {longest:.0f}"


def moment(at_ms: int | None) -> str | None:
    """A time in UTC, to the millisecond."""
    if at_ms is None:
        return None
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"
