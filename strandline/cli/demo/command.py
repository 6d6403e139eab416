"""`strandline demo`: runs a cluster with real records, kills a leader half way, and checks that no record is
lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from strandline.cli.shell.command import FAILED, Command, Invocation, pass_invocation, run

FAULTS_SHOWN_MAX: Final = 10


@click.command(cls=Command)
@click.option(
    "--file", "path", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Feed the lines of this file instead of the MovieLens sample.",
)  # fmt: skip
@click.option("--key-separator", default="::", show_default=True, help="End of the key in a line of --file.")
@click.option("--brokers", type=click.IntRange(min=3), default=3, show_default=True)
@click.option(
    "--kafka-port", type=click.IntRange(1024, 65_000), metavar="P",
    help="Ports for Kafka clients, the first broker's at P; default: free ones.",
)  # fmt: skip
@click.option(
    "--keep", type=click.Path(file_okay=False, path_type=Path),
    help="Run in this folder, and keep it; `strandline --dir … up` starts its cluster again. "
    "Default: a temporary folder.",
)  # fmt: skip
@pass_invocation
def demo(
    invocation: Invocation,
    path: Path | None,
    key_separator: str,
    brokers: int,
    kafka_port: int | None,
    keep: Path | None,
) -> None:
    """Kill the leader of a partition under load and check that nothing acknowledged is lost.

    Exits with 1 if any record was lost, changed, repeated, reordered or never acknowledged.
    """
    from strandline import LocalCluster
    from strandline.adapters.system.clock import SystemClock
    from strandline.cli.demo.script import play
    from strandline.cli.demo.source import lines_of, movielens

    source = movielens() if path is None else lines_of(path, key_separator.encode())
    monotonic = SystemClock().monotonic
    began = monotonic()

    def show(sentence: str) -> None:
        line = f"{monotonic() - began:5.1f} s  {sentence}"
        if invocation.out.json:
            invocation.out.note(line)
        else:
            click.echo(line)

    figures: dict[str, Any] = {"records": len(source.records)}
    cluster = LocalCluster(brokers, directory=keep, keep=keep is not None, kafka=True, kafka_port=kafka_port)
    faults = run(lambda: play(source, cluster, show, figures))
    if invocation.out.json:
        invocation.out.emit({**figures, "faults": faults, "ok": not faults})
    if not faults:
        show("Every acknowledged record was read exactly once, in the order of its partition.")
        return
    for fault in faults[:FAULTS_SHOWN_MAX]:
        invocation.out.note(f"error: {fault}")
    invocation.out.note(f"error: {len(faults)} faults in all")
    click.get_current_context().exit(FAILED)
