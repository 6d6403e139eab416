"""`strandline topic reassign` and `elect-preferred`: moves replicas and leaders."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import click

from strandline.cli.cluster.moves import copied_text
from strandline.cli.shell.command import FAILED, Command, Invocation, pass_invocation, run
from strandline.cli.shell.numbers import FiniteRange
from strandline.cli.shell.waits import Waits
from strandline.errors import ElectionNotNeeded, OutcomeUnknown, RequestTimedOut
from strandline.ids import NO_BROKER, TopicPartition

if TYPE_CHECKING:
    from strandline import Admin
    from strandline.vocabulary.admin import OngoingReassignment, PartitionResult

LOOK_AGAIN_S: Final = 0.2
LEADER_WAIT_MS: Final = 500
"""How long a report of what a reassignment waits for, waits for the leader."""
SETTLE_S_MAX: Final = 5.0
"""Time after a reassignment until the broker that is asked knows its result."""


def replicas_of(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[int, ...]:
    """Reads `1,2,3` as broker ids."""
    try:
        return () if value is None else tuple(int(each) for each in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not of the form 1,2,3") from None


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
    from strandline import Admin

    where = TopicPartition(name, partition)

    warnings: Sequence[str] = ()

    async def main() -> Sequence[int] | None:
        nonlocal warnings
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            original: tuple[int, ...] = ()
            if cancel:
                moving = await _moving(admin, where)
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
            return await _settled(admin, invocation, where, replicas, original) if wait else None

    now = run(main)
    if invocation.out.json:
        row = {"topic": name, "partition": partition, "cancelled": cancel, "complete": wait}
        invocation.out.emit({**row, "replicas": list(now or replicas) or None, "warnings": list(warnings)})
    elif now is not None:
        invocation.out.line(f"{where} has replicas {','.join(map(str, now))}")
    else:
        invocation.out.line(f"{where}: {'goes back to what it was' if cancel else 'under way'}")


async def _settled(
    admin: Admin,
    invocation: Invocation,
    where: TopicPartition,
    wanted: tuple[int, ...],
    original: tuple[int, ...],
) -> Sequence[int]:
    """Waits until the partition has no reassignment, and brokers show the replicas `wanted`, or after a
    cancellation `original`. Returns them. Raises OutcomeUnknown if it has others, RequestTimedOut once it is
    overdue."""
    from strandline.adapters.system.clock import SystemClock

    clock = SystemClock()
    shown: tuple[int, ...] | None = None
    target = wanted or original
    waits = Waits(invocation.out.note, clock)
    while (moving := await _moving(admin, where)) is not None:
        if wanted and moving.overdue:
            raise RequestTimedOut(f"overdue: {await _waiting(admin, moving)}")
        if wanted and moving.reverting:
            raise OutcomeUnknown(
                f"{where} does not move to {_listed(wanted)}: that was taken back meanwhile, by --cancel, at "
                f"its deadline or by another client, and it goes back to {_listed(moving.original)}"
            )
        if wanted and moving.replicas != wanted:
            raise OutcomeUnknown(
                f"{where} does not move to {_listed(wanted)}: a later request took its place, and it moves "
                f"to {_listed(moving.replicas)}"
            )
        target = wanted or moving.original
        if moving.isr != shown:
            shown = moving.isr
            invocation.out.note(f"{where}: in sync are {_listed(moving.isr)}")
        if waits.due:
            waits.show(await _waiting(admin, moving))
        await clock.sleep(LOOK_AGAIN_S)
    deadline = clock.monotonic() + SETTLE_S_MAX
    while True:
        (topic,) = (await admin.metadata([where.topic])).topics
        replicas = topic.partitions[where.partition].replicas
        if not target or replicas == target:
            return replicas
        if clock.monotonic() >= deadline:
            raise OutcomeUnknown(
                f"{where} did not move to {_listed(target)}: its replicas are {_listed(replicas)}; that was "
                "taken back, or a later request took its place"
            )
        await clock.sleep(LOOK_AGAIN_S)


async def _waiting(admin: Admin, moving: OngoingReassignment) -> str:
    """Describes what the reassignment waits for. Raises as the controller's answer does."""
    from strandline.client.admin.moves import reassignment_progress

    alive = {each.endpoint.id for each in (await admin.describe_cluster()).brokers if each.alive}
    (topic,) = (await admin.metadata([moving.name.topic])).topics
    leader, copied = topic.partitions[moving.name.partition].leader, ""
    if leader != NO_BROKER:
        answers = await admin.describe_replicas([moving.name], wait_ms=LEADER_WAIT_MS)
        copied = copied_text(reassignment_progress(moving, answers.get(moving.name)))
    return waiting_for(moving, alive, leader, copied)


def waiting_for(moving: OngoingReassignment, alive: Collection[int], leader: int, copied: str = "") -> str:
    """The reason why a reassignment is not complete, as far as brokers and controller report it.

    `copied` says how far the copies are.
    """
    target = moving.original if moving.reverting else moving.replicas
    if leader == NO_BROKER:
        dead = [broker for broker in moving.isr if broker not in alive]
        in_sync = _listed(moving.isr)
        why = f": in sync were {in_sync}, not alive of these are {_listed(dead)}"
        if not dead:
            why = f": broker {in_sync} was in sync and is alive; its log says why it does not lead"
        return f"{moving.name}: waiting for a leader{why}"
    missing = [broker for broker in target if broker not in moving.isr]
    if dead := [broker for broker in missing if broker not in alive]:
        return (
            f"{moving.name}: waiting for broker {_listed(dead)}, not alive: start it, name other replicas, "
            "or take the move back with --cancel"
        )
    if missing:
        throttle = moving.throttle_bytes_per_s
        limit = f", at most {throttle} bytes a second" if throttle else ""
        so_far = f": {copied}" if copied else ""
        return f"{moving.name}: waiting for broker {_listed(missing)} to have all records{limit}{so_far}"
    leaving = [broker for broker in moving.isr if broker not in target and broker != leader]
    if leaving:
        return f"{moving.name}: waiting for broker {_listed(leaving)} to close its replica"
    return f"{moving.name}: waiting for its leader, broker {leader}, to write the end"


def _listed(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "none"


async def _moving(admin: Admin, where: TopicPartition) -> OngoingReassignment | None:
    return next((each for each in await admin.list_reassignments() if each.name == where), None)


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
