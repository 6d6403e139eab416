"""`strandline quota`: sets, lists and deletes quotas of users, client ids and addresses, with the words of
Kafka's tool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

from strandline.cli.shell.command import Group, Invocation, pass_invocation, run
from strandline.security.quotas.model import (
    DEFAULT,
    EntityQuotas,
    Quota,
    QuotaAlteration,
    QuotaEntity,
    QuotaFilter,
    shown,
)

Function = TypeVar("Function", bound=Callable[..., Any])

_MEANINGS: Final = {
    Quota.PRODUCER_BYTE_RATE: "Bytes a second that each broker takes from its producers.",
    Quota.CONSUMER_BYTE_RATE: "Bytes a second that each broker gives to its consumers.",
    Quota.REQUEST_PERCENTAGE: "Of each broker's time; 100 is all of its event loop.",
    Quota.CONTROLLER_MUTATION_RATE: "Partitions a second that are created or deleted.",
    Quota.CONNECTION_CREATION_RATE: "Connections a second that a broker's Kafka ports take from it.",
}


def _entity_options(command: Function) -> Function:
    """--user, --user-default, --client-id, --client-id-default, --ip, --ip-default."""
    for option in (
        click.option("--ip-default", is_flag=True, help="Each address without a quota of its own."),
        click.option("--ip", metavar="ADDRESS", help="An address of IPv4 or IPv6."),
        click.option("--client-id-default", is_flag=True, help="Each client id without a quota of its own."),
        click.option("--client-id", metavar="ID", help="A client id."),
        click.option("--user-default", is_flag=True, help="Each user without a quota of its own."),
        click.option("--user", metavar="NAME", help="A user, without User: before it."),
    ):
        command = option(command)
    return command


def _limit_options(command: Function) -> Function:
    for quota, meaning in reversed(_MEANINGS.items()):
        option = f"--{quota.replace('_', '-')}"
        command = click.option(option, str(quota), type=float, metavar="LIMIT", help=meaning)(command)
    return command


def _name(given: dict[str, Any], part: str) -> str | None:
    name, default = given.pop(part), given.pop(f"{part}_default")
    option = f"--{part.replace('_', '-')}"
    if name is not None and default:
        raise click.UsageError(f"give {option} or {option}-default, not both")
    if name == DEFAULT:
        raise click.UsageError(f"{option} has no name: {option}-default means each one without a quota")
    return DEFAULT if default else name


def _names(given: dict[str, Any]) -> dict[str, str]:
    """Takes the options of `_entity_options` out of the given ones. Raises click.UsageError."""
    names = {part: _name(given, part) for part in ("user", "client_id", "ip")}
    return {part: name for part, name in names.items() if name is not None}


def _entity(given: dict[str, Any]) -> QuotaEntity:
    """Raises click.UsageError, InvalidRequest."""
    names = _names(given)
    if not names:
        raise click.UsageError("name whom: --user, --client-id or --ip, or their defaults")
    return QuotaEntity(**names)


def _filter(given: dict[str, Any]) -> QuotaFilter:
    """Raises click.UsageError, InvalidRequest."""
    names = _names(given)
    return QuotaFilter(names.get("user"), names.get("client_id"), ip=names.get("ip"))


@click.group(cls=Group)
def quota() -> None:
    """Set, list and delete quotas of users, client ids and addresses."""


@quota.command("set")
@_entity_options
@_limit_options
@pass_invocation
def set_(invocation: Invocation, /, **given: Any) -> None:
    """Set limits of a user, a client id, a user with a client id, or an address.

    Its other limits stay. With a user and a client id, the quota is for the two together. A client over its
    quota is delayed. Over controller_mutation_rate it is refused, and told when to try again. An address has
    connection_creation_rate alone. Brokers know it a moment later.
    """
    entity = _entity(given)
    wanted = {Quota(name): limit for name, limit in given.items() if limit is not None}
    if not wanted:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"give a limit: {options}")
    _alter(invocation, QuotaAlteration(entity, wanted))
    invocation.out.note(f"the quotas of {entity} are set")


@quota.command("list")
@_entity_options
@pass_invocation
def list_(invocation: Invocation, /, **given: Any) -> None:
    """List all quotas, or those that name this user, this client id or this address."""
    wanted = _filter(given)
    found = run(lambda: _described(invocation, wanted))
    if invocation.out.json:
        for each in found:
            of = each.entity
            parts = {"user": of.user, "client_id": of.client_id, "ip": of.ip}
            named = {part: shown(name) for part, name in parts.items() if name is not None}
            invocation.out.emit({**named, **{str(key): limit for key, limit in sorted(each.limits.items())}})
    elif found:
        rows = [
            (str(each.entity), str(key), f"{limit:,.15g}")
            for each in found
            for key, limit in sorted(each.limits.items())
        ]
        invocation.out.table(("entity", "quota", "limit"), rows)


@quota.command()
@_entity_options
@click.option(
    "--quota", "names", type=click.Choice(list(map(str, Quota))), multiple=True,
    help="Only this limit; may be repeated.",
)  # fmt: skip
@pass_invocation
def delete(invocation: Invocation, /, names: tuple[str, ...], **given: Any) -> None:
    """Delete the limits of a user, a client id, a user with a client id, or an address.

    It is no error if there are none, and the answer says so.
    """
    entity = _entity(given)
    wanted = QuotaFilter(entity.user, entity.client_id, strict=True, ip=entity.ip)
    standing = {quota for each in run(lambda: _described(invocation, wanted)) for quota in each.limits}
    named = list(map(Quota, names)) if names else sorted(entity.quotas)
    _alter(invocation, QuotaAlteration(entity, dict.fromkeys(named)))
    if found := standing.intersection(named):
        invocation.out.note(f"deleted for {entity}: {', '.join(sorted(map(str, found)))}")
    else:
        invocation.out.note(f"{entity} has no {' or '.join(names) or 'quota'}: nothing is deleted")


def _alter(invocation: Invocation, alteration: QuotaAlteration) -> None:
    from strandline import Admin

    async def main() -> None:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            await admin.alter_client_quotas([alteration])

    run(main)


async def _described(invocation: Invocation, wanted: QuotaFilter) -> Sequence[EntityQuotas]:
    from strandline import Admin

    async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
        return await admin.describe_client_quotas(wanted)
