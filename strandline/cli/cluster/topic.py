"""`strandline topic`: creates, lists, describes, alters, deletes and places topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from strandline.cli.cluster import elections, placement
from strandline.cli.cluster.partitions import (
    PARTITION_COLUMNS,
    condition_options,
    partition_rows,
    partition_table,
    with_any,
)
from strandline.cli.shell.command import Group, Invocation, pass_invocation, run
from strandline.cli.shell.configs import named_values
from strandline.report.text.counts import counted

if TYPE_CHECKING:
    from strandline.client.admin.topics import TopicDescription


MOVED = {
    "elect-preferred": "strandline topic elect --preferred",
    "reassignments": "strandline topic reassign --list",
    "throttle": "strandline topic reassign --throttle",
}


@click.group(cls=Group, moved=MOVED)
def topic() -> None:
    """Create, list, describe, alter and delete topics; move their replicas and leaders."""


config_option = click.option(
    "--config", "configs", multiple=True, metavar="NAME=VALUE", callback=named_values,
    help="A topic config by its Kafka name, such as min.insync.replicas=2; may be repeated.",
)  # fmt: skip


@topic.command()
@click.argument("name")
@click.option("--partitions", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--replication-factor", type=click.IntRange(min=1), default=1, show_default=True)
@config_option
@pass_invocation
def create(
    invocation: Invocation, name: str, partitions: int, replication_factor: int, configs: dict[str, str]
) -> None:
    """Create the topic NAME and wait until each of its partitions has a leader."""
    from strandline import Admin

    async def main() -> None:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            await admin.create_topic(
                name, partitions=partitions, replication_factor=replication_factor, config=configs
            )

    run(main)
    if invocation.out.json:
        invocation.out.emit(
            {
                "topic": name,
                "partitions": partitions,
                "replication_factor": replication_factor,
                "config": configs,
            }
        )
    else:
        size = f"{counted(partitions, 'partition')}, {counted(replication_factor, 'replica')} each"
        invocation.out.line(f"created {name}: {size}")


@topic.command("list")
@condition_options
@pass_invocation
def list_(invocation: Invocation, /, **conditions: bool) -> None:
    """List the topics; or those with partitions that an option selects, with their numbers.

    With several of these options, a partition is selected by any of them.
    """
    from strandline import Admin

    wanted = _chosen(conditions)

    async def main() -> Sequence[tuple[str, list[int]]]:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            if not wanted:
                return [(name, []) for name in sorted(await admin.list_topics())]
            found = with_any(await admin.describe_topics(replicas=True), wanted)
            return sorted((topic.name, [each.partition for each in topic.partitions]) for topic in found)

    for name, partitions in run(main):
        if invocation.out.json:
            invocation.out.emit({"topic": name, **({"partitions": partitions} if wanted else {})})
        else:
            invocation.out.line(f"{name}: {','.join(map(str, partitions))}" if wanted else name)


def _chosen(conditions: Mapping[str, bool]) -> list[str]:
    return [name for name, is_wanted in conditions.items() if is_wanted]


@topic.command()
@click.argument("names", nargs=-1)
@condition_options
@pass_invocation
def describe(invocation: Invocation, /, names: tuple[str, ...], **conditions: bool) -> None:
    """Show the topics NAMES, or all: leader, epoch, replicas, ISR, high watermark and log end, and which
    replicas are behind: by how many offsets and bytes, and for how long.

    The options select partitions; with several, a partition is selected by any of them. Topics without a
    selected partition are left out.
    """
    from strandline import Admin

    wanted = _chosen(conditions)

    async def main() -> Sequence[TopicDescription]:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            found = await admin.describe_topics(list(names) or None, replicas=True)
            return with_any(found, wanted) if wanted else found

    for description in run(main):
        if invocation.out.json:
            invocation.out.emit(
                {
                    "topic": description.name,
                    "topic_id": description.topic_id,
                    "config": dict(description.config),
                    "partitions": partition_rows(description),
                }
            )
            continue
        configs = ", ".join(f"{name}={value}" for name, value in sorted(description.config.items()))
        invocation.out.line(f"{description.name} ({configs or 'default config'})")
        invocation.out.table(PARTITION_COLUMNS, partition_table(description))


@topic.command()
@click.argument("name")
@config_option
@click.option("--unset", multiple=True, metavar="NAME", help="Return a config to its default.")
@click.option(
    "--partitions", type=click.IntRange(min=1), help="The new partition count; never lower than now."
)
@pass_invocation
def alter(
    invocation: Invocation,
    name: str,
    configs: dict[str, str],
    unset: tuple[str, ...],
    partitions: int | None,
) -> None:
    """Change the config of the topic NAME, or add partitions."""
    if not configs and not unset and partitions is None:
        raise click.UsageError(
            "nothing to change: give --config NAME=VALUE, --unset NAME or --partitions NUMBER"
        )
    from strandline import Admin

    async def main() -> None:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            await admin.alter_topic(name, set=configs, unset=list(unset), partitions=partitions)

    run(main)
    if invocation.out.json:
        grown = {} if partitions is None else {"partitions": partitions}
        invocation.out.emit({"topic": name, "set": configs, "unset": list(unset), **grown})
    else:
        invocation.out.line(f"altered {name}")


@topic.command()
@click.argument("names", nargs=-1, required=True)
@pass_invocation
def delete(invocation: Invocation, names: tuple[str, ...]) -> None:
    """Delete the topics NAMES and their records."""
    from strandline import Admin

    async def main() -> None:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            await admin.delete_topics(list(names))

    run(main)
    for name in names:
        if invocation.out.json:
            invocation.out.emit({"topic": name, "deleted": True})
        else:
            invocation.out.line(f"deleted {name}")


for command in (placement.reassign, elections.elect):
    topic.add_command(command)
