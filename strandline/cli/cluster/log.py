"""`strandline log`: reads files of brokers without a cluster: segments, and logs with steps of records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.cli.shell.command import FAILED, Group, Invocation, pass_invocation
from strandline.errors import CorruptMessage, SettingsError
from strandline.report.text.records import shown

path_argument = click.argument("path", type=click.Path(exists=True, path_type=Path))


@click.group(cls=Group)
def log() -> None:
    """Read files of brokers without a cluster."""


@log.command()
@path_argument
@click.option("--records", is_flag=True, help="Also show the records of each batch.")
@pass_invocation
def dump(invocation: Invocation, path: Path, records: bool) -> None:
    """Show the batches of a segment file, or of all segments of a partition's folder.

    With --records, a batch whose records cannot be decoded, or have more than 64 MiB, has a line with its
    problem in their place, and the exit status is 1.
    """
    from strandline.broker.storage import inspect

    found = undecodable = 0
    for batch in inspect.dump(path, files=SYSTEM_FILES):
        found += 1
        invocation.out.show(asdict(batch))
        if not records:
            continue
        try:
            for record in inspect.records(batch, files=SYSTEM_FILES):
                facts = {"offset": record.offset, "timestamp": record.timestamp}
                texts = shown("key", record.key) | shown("value", record.value)
                invocation.out.show(facts | texts, indent="  ")
        except CorruptMessage as error:
            undecodable += 1
            invocation.out.show({"offset": batch.base_offset, "problem": error.message}, indent="  ")
    if not found:
        invocation.out.note(f"{path}: no batches here")
    if undecodable:
        invocation.out.note(f"{path}: the records of {undecodable} of {found} batches cannot be shown")
        click.get_current_context().exit(FAILED)


@log.command()
@path_argument
@pass_invocation
def verify(invocation: Invocation, path: Path) -> None:
    """Check every batch of a segment file or a partition's folder; exits with 1 if one is damaged."""
    from strandline.broker.storage import inspect

    findings = 0
    for finding in inspect.verify(path, files=SYSTEM_FILES):
        findings += 1
        invocation.out.show(asdict(finding))
    if not findings and not invocation.out.json:
        invocation.out.line(f"{path}: no fault found")
    if findings:
        click.get_current_context().exit(FAILED)


@log.command()
@click.argument("topic")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--partition", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--offset", type=click.IntRange(min=0), help="Default: the last record that is traced.")
@pass_invocation
def trace(
    invocation: Invocation, topic: str, files: Sequence[str], partition: int, offset: int | None
) -> None:
    """Show the way of a record through the cluster, by what brokers with `trace_every` have logged.

    FILES are logs of brokers, `-` is standard input. Without FILES they are those of the local cluster.
    Exits with 1 if they have no step of such a record.
    """
    from strandline.cli.cluster.record_way import detail, way

    found = way(_lines(files or _local_logs(invocation)), topic, partition, offset)
    if not found:
        wanted = f"{topic}-{partition}" if offset is None else f"{topic}-{partition} offset {offset}"
        invocation.out.note(f"no step of {wanted}: trace_every of the brokers says which records are traced")
        click.get_current_context().exit(FAILED)
    if invocation.out.json:
        for at_us, step in found:
            invocation.out.emit({"at_us": at_us, **step.fields()})
        return
    (began_us, first), *_ = found
    invocation.out.line(f"{topic}-{partition} offset {first.offset}, epoch {first.epoch}")
    rows = [
        [f"{(at_us - began_us) / 1000:.3f}", step.broker, step.step.value, detail(step)]
        for at_us, step in found
    ]
    invocation.out.table(("ms", "broker", "step", ""), rows)


def _local_logs(invocation: Invocation) -> list[str]:
    """Raises SettingsError if there is no local cluster."""
    from strandline.local.cluster import LocalCluster

    if not invocation.directory.exists():
        raise SettingsError(f"there is no cluster in {invocation.directory}: name the logs of brokers")
    cluster = LocalCluster.open(invocation.directory)
    paths = [cluster.log_path(broker) for broker in cluster.broker_ids]
    return [str(path) for path in paths if path.exists()]


def _lines(files: Sequence[str]) -> Iterator[str]:
    for file in files:
        with click.open_file(file, encoding="utf-8", errors="replace") as stream:
            yield from stream
