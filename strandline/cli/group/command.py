"""`strandline group`: lists, describes, alters, resets and deletes groups, and shows their events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from strandline.cli.group.configs import alter, configs_of
from strandline.cli.group.events import events
from strandline.cli.group.offsets import ChosenType, TargetType, plan_json
from strandline.cli.group.view import mixed_warning, view_json
from strandline.cli.shell.command import Group, Invocation, pass_invocation, run
from strandline.errors import NonEmptyGroup
from strandline.report.text.partition_names import compact
from strandline.vocabulary.groups import CONSUMER

if TYPE_CHECKING:
    from strandline.client.resets.plan import Chosen, Reset, Target
    from strandline.consumer.described.view import GroupView
    from strandline.vocabulary.groups import DescribedGroup, ListedGroup


@click.group(cls=Group)
def group() -> None:
    """List, describe, alter, reset and delete consumer groups, and show their events."""


for command in (alter, configs_of, events):
    group.add_command(command)


@group.command("list")
@click.option(
    "--lag", "with_lag", is_flag=True, help="Also the lag of each, which costs a call for each group."
)
@pass_invocation
def list_(invocation: Invocation, with_lag: bool) -> None:
    """List the groups of all brokers, with their states.

    The lag is that of `group describe`, in the partitions in which the group has committed an offset.
    """
    from strandline import Admin
    from strandline.consumer.described.reading import read_lags

    async def main() -> tuple[Sequence[ListedGroup], Mapping[str, int | None]]:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            listed = await admin.list_groups()
            return listed, await read_lags(admin, [each.group for each in listed]) if with_lag else {}

    listed, lags = run(main)
    if invocation.out.json:
        for each in listed:
            shown = {"group": each.group, "protocol_type": each.protocol_type, "state": each.state}
            invocation.out.emit(shown | ({"lag": lags[each.group]} if with_lag else {}))
    elif listed:
        invocation.out.table(
            ("group", "type", "state", *["lag"] * with_lag),
            [
                (each.group, each.protocol_type or None, each.state, *[lags.get(each.group)] * with_lag)
                for each in listed
            ],
        )


@group.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP…")
@pass_invocation
def describe(invocation: Invocation, names: tuple[str, ...]) -> None:
    """Show GROUP…: its state, its last rebalance, its members, and its offsets in each partition.

    A partition's owner is the member that reported it; a member that has not reported it yet is shown in
    brackets. The lag is counted from the committed offset, or from the start of the log if that is later, to
    the high watermark. A note says of a commit that it is beyond the end of the log, before its start, of
    records that were lost, or of a deleted topic.
    """
    from strandline import Admin
    from strandline.consumer.described.reading import read_group

    async def main() -> Sequence[GroupView]:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            return [await read_group(admin, name) for name in names]

    for view in run(main):
        if invocation.out.json:
            invocation.out.emit(view_json(view))
        else:
            _show(invocation, view)
        if view.mixed:
            invocation.out.note(mixed_warning(view))


def _show(invocation: Invocation, view: GroupView) -> None:
    out = invocation.out
    described, coordinator = view.group, view.coordinator
    sides = [f"{len(members)} {side}" for side, members in view.sides.items() if members]
    out.line(f"group         {described.group}")
    assigns = described.type == CONSUMER
    counted = f"generation {described.generation}"
    if assigns:
        counted = f"epoch {described.generation}, with the target of {described.target_epoch}"
    out.line(f"state         {described.state}, {counted}")
    out.line(f"protocol      {', '.join([described.protocol or '-', *sides])}")
    out.line(f"coordinator   broker {coordinator.id} at {coordinator.address}")
    if described.reason:
        by = f" (caused by {described.caused_by})" if described.caused_by else ""
        out.line(f"rebalanced    {described.reason}{by}")
    for member in view.waits_for:
        out.line(f"waits for     {member.name} to give up {compact(member.revoking)}")
    out.line(f"lag           {'?' if view.lag is None else view.lag}")
    if view.members:
        out.line("")
        out.table(
            (
                "member",
                "instance",
                "client",
                "host",
                "epoch" if assigns else "rebalances",
                *["protocol"] * assigns,
                "assigned",
                "owned",
            ),
            [
                (
                    m.member + (" *" if m.member == described.leader else ""),
                    m.instance,
                    m.client_id,
                    m.host,
                    m.epoch if assigns else m.rebalance_protocol,
                    *[m.protocol] * assigns,
                    compact(m.assigned),
                    compact(m.owned),
                )
                for m in view.members
            ],
        )
    if view.partitions:
        noted = ["note"] * any(p.note for p in view.partitions)
        out.line("")
        out.table(
            ("topic", "partition", "committed", "end", "lag", "owner", *noted),
            [
                (
                    *(
                        *p.name,
                        p.committed,
                        p.end,
                        p.lag,
                        p.owner or (p.assigned_to and f"({p.assigned_to})"),
                    ),
                    *(p.note for _ in noted),
                )
                for p in view.partitions
            ],
        )


@group.command("reset-offsets")
@click.argument("name", metavar="GROUP")
@click.option(
    "--topic", "chosen", type=ChosenType(), multiple=True, required=True, metavar="TOPIC[:0,2,5-7]",
    help="The topic, or some of its partitions; may be repeated.",
)  # fmt: skip
@click.option(
    "--to", "target", type=TargetType(), required=True, metavar="earliest|latest|OFFSET|TIME|+N|-N",
    help="The new place; TIME in ISO 8601, +N and -N count records from the committed offset.",
)  # fmt: skip
@click.option("--execute", is_flag=True, help="Make the change; without it, only show it.")
@pass_invocation
def reset_offsets(
    invocation: Invocation, name: str, chosen: tuple[Chosen, ...], target: Target, execute: bool
) -> None:
    """Set where GROUP reads next, within the logs' bounds. Without --execute nothing changes.

    Only a group without members can be reset: stop its consumers first.
    """
    from strandline import Admin
    from strandline.client.resets.reading import read_plan

    async def main() -> list[Reset]:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            described = (await admin.describe_group(name)).group
            if described.members and execute:
                raise NonEmptyGroup(_stop_first(described))
            resets = await read_plan(admin, name, chosen, target)
            if described.members:
                invocation.out.note(f"warning: {_stop_first(described)}")
            if execute:
                await admin.alter_group_offsets(name, {reset.name: reset.position for reset in resets})
            return resets

    resets = run(main)
    if invocation.out.json:
        invocation.out.emit(plan_json(name, resets, executed=execute))
        return
    invocation.out.table(
        ("topic", "partition", "committed", "new", "change", "lag then", "note"),
        [
            (
                *reset.name,
                reset.committed,
                reset.new,
                None if reset.change is None else f"{reset.change:+d}",
                reset.lag,
                reset.note,
            )
            for reset in resets
        ],
    )
    if not execute:
        invocation.out.note("nothing was changed; --execute changes it")


def _stop_first(described: DescribedGroup) -> str:
    """The reason why a group with members is not reset, and what to do."""
    members = ", ".join(f"{m.member} (client {m.client_id} at {m.host})" for m in described.members)
    return (
        f"group {described.group} is {described.state} with {len(described.members)} members: {members}. "
        "Stop them before --execute: they would continue from their own positions, and commit over the change"
    )


@group.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP…")
@pass_invocation
def delete(invocation: Invocation, names: tuple[str, ...]) -> None:
    """Delete GROUP… and their committed offsets. Groups with members are not deleted: stop them first."""
    from strandline import Admin

    async def main() -> None:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            for name in names:
                await admin.delete_group(name)
                if invocation.out.json:
                    invocation.out.emit({"group": name, "deleted": True})
                else:
                    invocation.out.line(f"deleted {name}")

    run(main)
