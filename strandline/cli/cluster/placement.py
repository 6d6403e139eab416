"""`strandline topic reassign` and `elect-preferred`: moves replicas and leaders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from strandline.cli.cluster.settling import Settling, ongoing
from strandline.cli.shell.command import FAILED, Command, Invocation, pass_invocation, run
from strandline.cli.shell.numbers import FiniteRange
from strandline.errors import ElectionNotNeeded
from strandline.ids import TopicPartition, named_twice

if TYPE_CHECKING:
    from strandline.vocabulary.admin import PartitionResult


def replicas_of(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[int, ...]:
    """Reads `1,2,3` as broker ids. Raises click.BadParameter, also for an id that is named twice."""
    try:
        brokers = () if value is None else tuple(int(each) for each in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not of the form 1,2,3") from None
    if (twice := named_twice(brokers)) is not None:
        raise click.BadParameter(f"{value!r} names broker {twice} twice")
    return brokers


@click.command(cls=Command)
@click.argument("name")
@click.option("--partition", type=click.IntRange(min=0), required=True)
@click.option(
    "--replicas", metavar="ID,…", callback=replicas_of,
    help="Brokers that should have the partition; the first is the preferred leader.",
)  # fmt: skip
@click.option(
    "--throttle", type=click.IntRange(min=1), metavar="BYTES",
    help="Limit for the new replicas, bytes a second.",
)  # fmt: skip
@click.option(
    "--timeout", "timeout_s", type=FiniteRange(min=0), metavar="S",
    help="The move is overdue after this many seconds; 0: never; default: the controller's time.",
)  # fmt: skip
@click.option("--cancel-at-deadline", is_flag=True, help="Take the move back when it is overdue.")
@click.option("--cancel", is_flag=True, help="Cancel the reassignment: the replicas stay as they were.")
@click.option("--wait", is_flag=True, help="Wait until it is complete.")
@pass_invocation
def reassign(
    invocation: Invocation,
    name: str,
    partition: int,
    replicas: tuple[int, ...],
    throttle: int | None,
    timeout_s: float | None,
    cancel_at_deadline: bool,
    cancel: bool,
    wait: bool,
) -> None:
    """Give a partition of the topic NAME other replicas, or the same ones in another order.

    The reassignment continues without this command. Another request while it is under way changes its target.
    Warns of brokers that are not alive, and of replicas in one rack. With --wait, exits with 1 and the reason
    once the move is overdue; it goes on, unless --cancel-at-deadline is given.
    """
    if cancel == bool(replicas):
        raise click.UsageError("give either --replicas ID,… or --cancel")
    if cancel and (throttle is not None or timeout_s is not None or cancel_at_deadline):
        raise click.UsageError(
            "--throttle, --timeout and --cancel-at-deadline are for a move: leave them out"
        )
    if cancel_at_deadline and timeout_s == 0:
        raise click.UsageError("--timeout 0 is no deadline: leave it or --cancel-at-deadline out")
    from strandline import Admin

    where = TopicPartition(name, partition)

    warnings: Sequence[str] = ()

    async def main() -> Sequence[int] | None:
        nonlocal warnings
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            original: tuple[int, ...] = ()
            if cancel:
                moving = await ongoing(admin, where)
                original = () if moving is None else tuple(moving.original)
                await admin.cancel_reassignment([where])
            else:
                warnings = await admin.reassign(
                    {where: replicas},
                    throttle_bytes_per_s=throttle or 0,
                    timeout_ms=None if timeout_s is None else round(timeout_s * 1000),
                    cancel_at_deadline=cancel_at_deadline,
                )
                for warning in warnings:
                    invocation.out.note(f"warning: {warning}")
            if not wait:
                return None
            settling = Settling(admin, where, replicas or original, invocation.out.note)
            return await (settling.cancelled() if cancel else settling.moved(cancels=cancel_at_deadline))

    now = run(main)
    if invocation.out.json:
        row = {"topic": name, "partition": partition, "cancelled": cancel, "complete": wait}
        invocation.out.emit({**row, "replicas": list(now or replicas) or None, "warnings": list(warnings)})
    elif now is not None:
        invocation.out.line(f"{where} has replicas {','.join(map(str, now))}")
    else:
        invocation.out.line(f"{where}: {'goes back to what it was' if cancel else 'under way'}")


@click.command("elect-preferred", cls=Command)
@click.argument("names", nargs=-1)
@click.option("--partition", type=click.IntRange(min=0), help="Only this partition of the one topic NAME.")
@pass_invocation
def elect_preferred(invocation: Invocation, names: tuple[str, ...], partition: int | None) -> None:
    """Let preferred leaders (the first of each partition's replicas) lead the partitions of the topics NAMES,
    or of all.

    Shows the partitions that other brokers led, and exits with 1 if one of them could not change.
    """
    if partition is not None and len(names) != 1:
        raise click.UsageError("--partition is of one topic: name it, and no other")
    from strandline import Admin

    async def main() -> Sequence[PartitionResult]:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            if not names:
                return await admin.elect_preferred()
            if partition is not None:
                return await admin.elect_preferred([TopicPartition(names[0], partition)])
            topics = (await admin.metadata(names)).topics
            return await admin.elect_preferred(
                TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions
            )

    results = [result for result in run(main) if not isinstance(result.error, ElectionNotNeeded)]
    for result in results:
        if invocation.out.json:
            topic, number = result.name
            error = None if result.error is None else result.error.message
            invocation.out.emit({"topic": topic, "partition": number, "elected": not error, "error": error})
        elif result.error is None:
            invocation.out.line(f"{result.name}: its preferred leader leads")
        else:
            invocation.out.line(result.error.message)
    if not results and not invocation.out.json:
        invocation.out.line("preferred leaders lead already")
    if any(result.error is not None for result in results):
        raise click.exceptions.Exit(FAILED)
