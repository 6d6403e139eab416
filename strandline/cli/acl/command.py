"""`strandline acl`: adds, lists, removes and tests ACLs, with the words of Kafka's tool."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

from strandline.cli.acl.chosen import Grants, Resources, as_json, bindings, exact, filters
from strandline.cli.shell.command import FAILED, Group, Invocation, pass_invocation, run
from strandline.errors import InvalidRequest
from strandline.security.acls import AclBinding, AclFilter, Operation, PatternType, plain_address
from strandline.security.decide import Acls, Ground, decide
from strandline.security.principal import ANONYMOUS, Principal

Function = TypeVar("Function", bound=Callable[..., Any])


class PrincipalType(click.ParamType[Principal]):
    """`User:alice`."""

    name = "principal"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Principal:
        try:
            return value if isinstance(value, Principal) else Principal.parse(value)
        except InvalidRequest as error:
            self.fail(error.message, param, ctx)


class OperationType(click.ParamType[Operation]):
    """`Read`, `READ`, `describe-configs`, `DescribeConfigs`: letters of any case."""

    name = "operation"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Operation:
        if isinstance(value, Operation):
            return value
        wanted = "".join(filter(str.isalnum, value)).upper()
        for each in Operation:
            if each is not Operation.ANY and each.name.replace("_", "") == wanted:
                return each
        there = ", ".join(each.name for each in Operation if each is not Operation.ANY)
        self.fail(f"{value!r} is no operation: {there}", param, ctx)


PRODUCER_GETS: Final = (
    "WRITE, DESCRIBE and CREATE on each topic, WRITE and DESCRIBE on each transactional id."
)
"""What --producer stands for."""


def _resource_options(command: Function) -> Function:
    """--topic, --group, --transactional-id, --cluster."""
    for option in (
        click.option("--cluster", is_flag=True, help="The cluster itself."),
        click.option(
            "--transactional-id", "transactional_ids", multiple=True, metavar="ID",
            help="The id of a producer with transactions; may be repeated; * is all.",
        ),
        click.option("--group", "groups", multiple=True, metavar="NAME", help="May be repeated."),
        click.option("--topic", "topics", multiple=True, metavar="NAME", help="May be repeated; * is all."),
    ):  # fmt: skip
        command = option(command)
    return command


def _pattern_option(default: str, *types: PatternType) -> Callable[[Function], Function]:
    return click.option(
        "--resource-pattern-type", "pattern_type", default=default, show_default=True,
        type=click.Choice([each.name.lower() for each in types], case_sensitive=False),
        help="prefixed: each resource whose name begins with NAME.",
    )  # fmt: skip


def _grant_options(command: Function) -> Function:
    """Who may do what, or may not."""
    principals: dict[str, Any] = {"type": PrincipalType(), "multiple": True, "metavar": "USER:NAME"}
    hosts: dict[str, Any] = {"multiple": True, "metavar": "ADDRESS", "help": "From this address only."}
    for option in (
        click.option("--consumer", is_flag=True, help="READ and DESCRIBE on each topic, READ on each group."),
        click.option("--producer", is_flag=True, help=PRODUCER_GETS),
        click.option(
            "--operation", "operations", type=OperationType(), multiple=True, metavar="NAME",
            help="May be repeated; default: ALL.",
        ),
        click.option("--deny-host", "deny_hosts", **hosts),
        click.option("--allow-host", "allow_hosts", **hosts),
        click.option("--deny-principal", "deny", **principals),
        click.option("--allow-principal", "allow", **principals),
    ):  # fmt: skip
        command = option(command)
    return command


def _resources(given: dict[str, Any]) -> Resources:
    """Takes the options of `_resource_options` out of the given ones."""
    return Resources(*(given.pop(name) for name in ("topics", "groups", "transactional_ids", "cluster")))


@click.group(cls=Group)
def acl() -> None:
    """Add, list, remove and test ACLs: who may do what."""


@acl.command()
@_resource_options
@_pattern_option("literal", PatternType.LITERAL, PatternType.PREFIXED)
@_grant_options
@pass_invocation
def add(invocation: Invocation, /, pattern_type: str, **given: Any) -> None:
    """Add ACLs for each resource, principal, host and operation that is named.

    One that exists already stays. Brokers know a new one a moment later.
    """
    from strandline import Admin

    wanted = bindings(_resources(given), PatternType[pattern_type.upper()], Grants(**given))
    if not wanted:
        raise click.UsageError("name whom: --allow-principal or --deny-principal")

    async def main() -> None:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            await admin.create_acls(wanted)

    run(main)
    _show(invocation, wanted)


@acl.command("list")
@_resource_options
@_pattern_option("any", PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED)
@click.option("--principal", "principals", type=PrincipalType(), multiple=True, metavar="USER:NAME")
@pass_invocation
def list_(
    invocation: Invocation, /, pattern_type: str, principals: tuple[Principal, ...], **given: Any
) -> None:
    """List the ACLs, or those of the named resources and principals.

    With --resource-pattern-type match, a name finds each ACL that is about the resource of this name.
    """
    wanted = filters(_resources(given), PatternType[pattern_type.upper()], principals)
    found = run(lambda: _described(invocation, wanted))
    _show(invocation, found)


@acl.command()
@_resource_options
@_pattern_option("literal", PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED)
@_grant_options
@pass_invocation
def remove(invocation: Invocation, /, pattern_type: str, **given: Any) -> None:
    """Remove the ACLs that `add` with the same options adds; without a principal, all of the resources."""
    from strandline import Admin

    resources, grants, kind = _resources(given), Grants(**given), PatternType[pattern_type.upper()]
    if grants.allow or grants.deny:
        if kind not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise click.UsageError("--resource-pattern-type any and match remove all ACLs: name no principal")
        wanted = [exact(each) for each in bindings(resources, kind, grants)]
    elif grants != Grants():
        raise click.UsageError("name whom: --allow-principal or --deny-principal")
    elif not resources.named():
        raise click.UsageError("name a resource: --topic, --group, --cluster or --transactional-id")
    else:
        wanted = filters(resources, kind, ())

    async def main() -> Sequence[AclBinding]:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            return await admin.delete_acls(wanted)

    _show(invocation, run(main))


@acl.command()
@_resource_options
@click.option(
    "--principal", type=PrincipalType(), default=str(ANONYMOUS), show_default=True, metavar="USER:NAME",
)  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS")
@click.option("--operation", type=OperationType(), required=True, metavar="NAME")
@pass_invocation
def test(
    invocation: Invocation, /, principal: Principal, host: str, operation: Operation, **given: Any
) -> None:
    """Show whether the ACLs allow an operation, and which one decides. The exit status is 1 if one is denied.

    Super users, and the principals of brokers and controllers, need no ACL; the command does not know them.
    """
    named = _resources(given).named()
    if not named:
        raise click.UsageError("name a resource: --topic, --group, --cluster or --transactional-id")
    acls = Acls(0, run(lambda: _described(invocation, [AclFilter()])))
    denied = False
    for of, name in named:
        decision = decide(acls, principal, plain_address(host), operation, of, name)
        denied |= not decision.allowed
        by = decision.why if isinstance(decision.why, AclBinding) else None
        if invocation.out.json:
            asked = {"resource_type": of.name, "name": name, "operation": operation.name}
            decided = {"allowed": decision.allowed, "by": by and as_json(by)}
            invocation.out.emit(asked | decided)
        else:
            answer = "allowed" if decision.allowed else "denied"
            why = by or ("no ACL is about it" if decision.why is Ground.NO_ACL_FOUND else "no ACL allows it")
            invocation.out.line(f"{operation.name} on {of.name} {name}: {answer}: {why}")
    if denied:
        sys.exit(FAILED)


async def _described(invocation: Invocation, wanted: Sequence[AclFilter]) -> list[AclBinding]:
    from strandline import Admin

    found: set[AclBinding] = set()
    async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
        for each in wanted:
            found.update(await admin.describe_acls(each))
    return sorted(found)


def _show(invocation: Invocation, found: Sequence[AclBinding]) -> None:
    if invocation.out.json:
        for binding in found:
            invocation.out.emit(as_json(binding))
    elif found:
        rows = [tuple(as_json(binding).values()) for binding in found]
        invocation.out.table(
            ("resource", "name", "pattern", "principal", "host", "operation", "permission"), rows
        )
