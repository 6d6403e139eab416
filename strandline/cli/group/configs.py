"""`strandline group alter` and `configs`: what a group has instead of the brokers' settings."""

from __future__ import annotations

from collections.abc import Mapping

import click

from strandline.cli.shell.command import Command, Invocation, pass_invocation, run
from strandline.cli.shell.configs import named_values
from strandline.vocabulary.configs.groups import NAMES


@click.command(cls=Command)
@click.argument("name", metavar="GROUP")
@click.option(
    "--config", "configs", multiple=True, metavar="NAME=VALUE", callback=named_values,
    help="A config by its Kafka name, such as consumer.session.timeout.ms=50000; may be repeated.",
)  # fmt: skip
@click.option("--unset", multiple=True, metavar="NAME", help="Return a config to the brokers' setting.")
@pass_invocation
def alter(invocation: Invocation, name: str, configs: dict[str, str], unset: tuple[str, ...]) -> None:
    """Change what GROUP has instead of the brokers' settings.

    It is for groups whose coordinator assigns, and GROUP need not be there yet. Its members go by it from
    their next heartbeats on.
    """
    if not configs and not unset:
        raise click.UsageError("nothing to change: give --config NAME=VALUE or --unset NAME")
    if unknown := [each for each in unset if each not in NAMES]:
        raise click.UsageError(f"unknown group config {unknown[0]!r}; known are {', '.join(NAMES)}")
    from strandline import Admin

    async def main() -> None:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            await admin.alter_group_config(name, configs, unset)

    run(main)
    if invocation.out.json:
        invocation.out.emit({"group": name, "set": configs, "unset": list(unset)})
    else:
        invocation.out.line(f"altered {name}")


@click.command("configs", cls=Command)
@click.argument("names", nargs=-1, metavar="[GROUP…]")
@pass_invocation
def configs_of(invocation: Invocation, names: tuple[str, ...]) -> None:
    """Show what GROUP…, or each group, has instead of the brokers' settings."""
    from strandline import Admin

    async def main() -> Mapping[str, Mapping[str, str]]:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            return await admin.describe_group_configs(names)

    found = run(main)
    if invocation.out.json:
        for group, config in found.items():
            invocation.out.emit({"group": group, "config": dict(config)})
    elif rows := [(group, *each) for group, config in found.items() for each in config.items()]:
        invocation.out.table(("group", "config", "value"), rows)
    else:
        invocation.out.note("the brokers' settings count, there are no others")
