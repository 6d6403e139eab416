"""`strandline pipeline archive`: keeps a topic as Parquet files, and compares the two."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from strandline.cli.pipeline.spark import DIFFERS, connection_of, master_option, open_session, topic_exists
from strandline.cli.shell.command import INTERRUPTED, Command, Invocation, pass_invocation
from strandline.cli.shell.numbers import FiniteRange
from strandline.cli.shell.output import Output
from strandline.errors import UnknownTopicOrPartition

if TYPE_CHECKING:
    from strandline.pipeline.jobs.archive import Archived
    from strandline.pipeline.jobs.archive_check import Check


@click.command("archive", cls=Command)
@click.argument("topic")
@click.option("--to", "directory", required=True, metavar="DIR", help="A folder, or a URL that Spark knows.")
@click.option("--follow", is_flag=True, help="Continue with new records, until SIGTERM or Ctrl-C.")
@click.option(
    "--every", "every_s", type=FiniteRange(min=0.1), default=30, show_default=True, metavar="SECONDS",
    help="Time between two batches with --follow.",
)  # fmt: skip
@click.option("--check", "compare", is_flag=True, help="Compare DIR with the topic instead.")
@click.option(
    "--batch-records", type=click.IntRange(min=1), metavar="N",
    help="Records in one write; default: 2,000,000.",
)  # fmt: skip
@click.option("--skip-lost", is_flag=True, help="Skip records that the topic lost before they were archived.")
@click.option(
    "--isolation", type=click.Choice(["committed", "uncommitted"]),
    help="Of a new archive: without records of open and aborted transactions (the default), or with all.",
)  # fmt: skip
@master_option
@pass_invocation
def archive(
    invocation: Invocation,
    topic: str,
    directory: str,
    follow: bool,
    every_s: float,
    compare: bool,
    batch_records: int | None,
    skip_lost: bool,
    isolation: str | None,
    master: str,
) -> None:
    """Keep TOPIC as Parquet files in DIR, by topic and day; another run adds the new records.

    The archive has each record once, even if a process is killed in between. With --check, compares the files
    and the topic up to the end of DIR: for each partition the number of records, their offsets, and a digest
    of all their contents. Exit status 2 if they differ. Later runs and checks keep the isolation of DIR.
    """
    if compare and (follow or skip_lost or batch_records is not None):
        raise click.UsageError("--check writes nothing: it goes with --to, --isolation and --master only")
    level = None if isolation is None else f"read_{isolation}"
    cluster = connection_of(invocation)
    doing = f"{'comparing' if compare else 'archiving'} {topic}"
    spark = open_session(invocation, master, f"archive {topic}", doing)
    from strandline.pipeline.jobs.archive import BATCH_RECORDS, place, run

    stop = Stop()
    if follow:
        stop.watch()  # only now, since a starting Spark takes over Ctrl-C
    try:
        if not topic_exists(invocation, topic):
            raise UnknownTopicOrPartition(f"there is no topic {topic!r}")
        if compare:
            from strandline.pipeline.jobs.archive_check import run as check

            found = check(spark, cluster, topic, place(directory), isolation=level)
            show_check(invocation.out, topic, found)
            if not found.sound:
                click.get_current_context().exit(DIFFERS)
            return
        done = run(
            spark,
            cluster,
            topic,
            place(directory),
            every_s=every_s if follow else None,
            batch_records=batch_records or BATCH_RECORDS,
            skip_lost=skip_lost,
            isolation=level,
            stopped=stop.event.is_set,
            on_progress=lambda progress: _show_progress(invocation, progress),
        )
        _show(invocation, done)
        if stop.interrupted:
            click.get_current_context().exit(INTERRUPTED)
    finally:
        spark.stop()


class Stop:
    """Handles SIGTERM and Ctrl-C: ends --follow cleanly, and abandons a batch that is being read.

    `interrupted`: Ctrl-C was pressed. A second Ctrl-C ends the command at once.
    """

    def __init__(self) -> None:
        self.event = Event()
        self.interrupted = False

    def watch(self) -> None:
        """Handles the signals from now on."""
        signal.signal(signal.SIGTERM, lambda *_: self.event.set())
        signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, *_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.interrupted = True
        self.event.set()


def _show_progress(invocation: Invocation, progress: Mapping[str, Any]) -> None:
    invocation.out.note(f"batch {progress['batchId']}: {progress['numInputRows']} records")


def _show(invocation: Invocation, done: Archived) -> None:
    rows = [(name.topic, name.partition, *span) for name, span in sorted(done.offsets.items())]
    if done.leftovers:
        invocation.out.note(f"files of batches that were cut off, removed: {done.leftovers}")
    if invocation.out.json:
        for row in rows:
            invocation.out.emit(dict(zip(("topic", "partition", "from", "to"), row, strict=True)))
        return
    if not rows:
        invocation.out.line("nothing new")
        return
    invocation.out.table(("topic", "partition", "from", "to"), rows)


def show_check(out: Output, topic: str, check: Check) -> None:
    """Writes what a check found: as JSON each partition, each difference, and the whole."""
    rows = [
        {
            "topic": topic,
            "partition": each.partition,
            "from": each.start,
            "to": each.end,
            "archived": each.archive.records,
            "records": each.topic.records,
            "archive_digest": f"{each.archive.digest:032x}",
            "topic_digest": f"{each.topic.digest:032x}",
            "same": each.same,
        }
        for each in check.partitions
    ]
    if out.json:
        for row in rows:
            out.emit({"what": "partition", **row})
        for each in check.differences:
            out.emit({"what": each.kind, "topic": topic, "partition": each.partition, "offset": each.offset})
        out.emit(
            {
                "what": "check", "sound": check.sound, "different": check.different,
                "faults": list(check.faults), "notes": list(check.notes),
            }
        )  # fmt: skip
        return
    columns = ("partition", "from", "to", "archived", "records", "same")
    out.table(columns, [[row[name] for name in columns] for row in rows])
    for each in check.differences:
        out.line(f"{each.kind}: {topic}-{each.partition} offset {each.offset}")
    if check.different > len(check.differences):
        out.line(f"and {check.different - len(check.differences)} more records that differ")
    for fault in check.faults:
        out.line(f"fault: {fault}")
    for note in check.notes:
        out.note(note)
    out.line("the archive is sound" if check.sound else "the archive differs from the topic")
