"""`strandline topic elect`: lets preferred leaders lead, or elects with a loss of records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from strandline.cli.shell.command import FAILED, Command, Invocation, pass_invocation, run
from strandline.errors import ElectionNotNeeded
from strandline.ids import TopicId, TopicPartition

if TYPE_CHECKING:
    from strandline import Admin
    from strandline.vocabulary.admin import PartitionResult, UncleanElection


@click.command(cls=Command)
@click.argument("names", nargs=-1)
@click.option("--preferred", is_flag=True, help="Let the first of each partition's replicas lead it.")
@click.option(
    "--unclean", is_flag=True,
    help="Elect for partitions without a leader, and accept that acknowledged records may be lost.",
)  # fmt: skip
@click.option("--partition", type=click.IntRange(min=0), help="Only this partition of the one topic NAME.")
@click.option("--all", "everything", is_flag=True, help="All partitions, those of internal topics too.")
@click.option("--yes", is_flag=True, help="With --unclean: do not ask.")
@pass_invocation
def elect(
    invocation: Invocation,
    names: tuple[str, ...],
    preferred: bool,
    unclean: bool,
    partition: int | None,
    everything: bool,
    yes: bool,
) -> None:
    """Elect leaders for the partitions of the topics NAMES, or of all topics.

    --preferred: the preferred leader of each partition, the first of its replicas, leads it again. No record
    is lost. Shows the partitions that other brokers led, and exits with 1 if one of them could not change.

    --unclean: where partitions have no leader, the longest live log leads. First shows for each partition the
    broker that would lead, and what is known about the records that would be lost. Then asks for
    confirmation. Exits with 1 if one of the partitions has no leader afterwards.
    """
    if preferred == unclean:
        raise click.UsageError("give either --preferred or --unclean, which may lose records")
    if everything == bool(names):
        raise click.UsageError("give either names of topics, internal ones too, or --all")
    if partition is not None and len(names) != 1:
        raise click.UsageError("--partition is of one topic: name it, and no other")
    if preferred:
        if yes:
            raise click.UsageError("--yes is for --unclean: --preferred asks nothing")
        return _preferred(invocation, names, partition)
    if invocation.out.json and not yes:
        raise click.UsageError("-o json cannot ask for confirmation: give --yes")
    return _unclean(invocation, names, partition, yes=yes)


def _preferred(invocation: Invocation, names: Sequence[str], partition: int | None) -> None:
    """Of all topics if none is named."""
    from strandline import Admin

    async def main() -> Sequence[PartitionResult]:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            return await admin.elect_preferred(await _partitions(admin, names, partition) if names else None)

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


def _unclean(invocation: Invocation, names: Sequence[str], partition: int | None, *, yes: bool) -> None:
    """Of all topics if none is named."""
    from strandline import Admin

    async def ask(
        confirmed: Mapping[TopicPartition, TopicId] | None = None, *, validate_only: bool = False
    ) -> Sequence[UncleanElection]:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            wanted: Iterable[TopicPartition] | None = confirmed
            if confirmed is None and names:
                wanted = await _partitions(admin, names, partition)
            results = await admin.elect_unclean(wanted, validate_only=validate_only)
        # Most partitions of a topic have a leader: only partitions named by number report that.
        by_number = partition is not None
        return [each for each in results if by_number or not isinstance(each.error, ElectionNotNeeded)]

    confirmed, refused = None, False
    if not yes:
        plans = run(lambda: ask(validate_only=True))
        for plan in plans:
            _show(invocation, plan, "would lead")
        if any(plan.error is None for plan in plans):
            if not click.confirm("Records that are missing now are lost for good. Elect?", err=True):
                click.echo("nothing was done", err=True)
                raise click.exceptions.Exit(FAILED)
        elif plans:
            raise click.exceptions.Exit(FAILED)
        confirmed = {plan.name: plan.topic_id for plan in plans if plan.error is None}
        refused = len(confirmed) < len(plans)
    results = run(lambda: ask(confirmed))
    for result in results:
        _show(invocation, result, "leads")
    if not results and not invocation.out.json:
        invocation.out.line("all partitions are led")
    if refused or any(result.error is not None for result in results):
        raise click.exceptions.Exit(FAILED)


async def _partitions(admin: Admin, names: Sequence[str], partition: int | None) -> list[TopicPartition]:
    if partition is not None:
        return [TopicPartition(names[0], partition)]
    topics = (await admin.metadata(names)).topics
    return [TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions]


def _show(invocation: Invocation, each: UncleanElection, leads: str) -> None:
    if invocation.out.json:
        invocation.out.emit(_row(each))
    elif each.error is not None:
        invocation.out.line(each.error.message)
    else:
        why = f" ({', '.join(each.missing)})" if each.missing else ""
        invocation.out.line(f"{each.name}: broker {each.broker} {leads} from offset {each.log_end} on{why}")
        invocation.out.line(f"  {each.known}")


def _row(each: UncleanElection) -> dict[str, Any]:
    topic, number = each.name
    row: dict[str, Any] = {"topic": topic, "partition": number, "elected": each.error is None}
    if each.error is not None:
        return {**row, "error": each.error.message}
    return {
        **row,
        "broker": each.broker,
        "last_epoch": each.last_epoch,
        "log_end": each.log_end,
        "lost_to": each.known_end,
        "missing": list(each.missing),
    }
