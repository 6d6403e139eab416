"""`strandline broker`: lists, drains and forgets brokers, and checks if one may be stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from strandline.cli.shell.command import FAILED, Group, Invocation, pass_invocation, run
from strandline.cli.shell.following import first_of, followed
from strandline.cli.shell.numbers import FiniteRange
from strandline.cli.shell.waits import Waits
from strandline.report.text.counts import counted
from strandline.report.text.durations import age

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from strandline import Admin
    from strandline.ports import Clock
    from strandline.vocabulary.admin import (
        BrokerCheck,
        BrokerDescription,
        DrainProgress,
        ForgottenBroker,
        OngoingReassignment,
    )

LOOK_AGAIN_S: Final = 0.5

WAY_OUT_OF_DRAIN: Final = (
    "waiting does not change that: give such a partition another replica (`topic reassign`), or use "
    "--except-permanent: no broker serves it while this one is down"
)
WAY_OUT_OF_READY: Final = (
    "waiting does not change that: give such a partition more replicas (`topic reassign`) or a lower "
    "min.insync.replicas, or use --except-permanent: it takes no records with acks=all while the "
    "broker is down"
)

NO_LONGER_DRAINED: Final = (
    "is no longer drained: its drain was taken back, or has ended because the broker was started again"
)

BROKER_ID: Final = click.IntRange(0, 2**31 - 1)


@click.group(cls=Group)
def broker() -> None:
    """List brokers, drain them, check if they may be stopped, and forget them."""


@broker.command("list")
@pass_invocation
def list_(invocation: Invocation) -> None:
    """List the brokers, including dead ones that have a queue of state changes."""
    from strandline import Admin
    from strandline.adapters.system.clock import SystemClock

    async def main() -> tuple[BrokerDescription, ...]:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            return (await admin.describe_cluster()).brokers

    described = run(main)
    now_ms = SystemClock().wall_ms()
    rows = [broker_row(each, now_ms) for each in sorted(described, key=lambda each: each.endpoint.id)]
    if invocation.out.json:
        for row in rows:
            invocation.out.emit(row)
        return
    columns = ("broker", "host", "port", "rack", "alive", "shutting_down", "drained", "queued", "oldest")
    table = [[*(row[column] for column in columns[:-1]), age(row["oldest_age_ms"])] for row in rows]
    invocation.out.table(columns, table)


def broker_row(each: BrokerDescription, now_ms: int) -> dict[str, Any]:
    """A broker as `broker list` shows it; the address of a dead broker is unknown."""
    end, oldest_ms = each.endpoint, each.oldest_queued_at_ms or None
    return {
        "broker": end.id,
        "host": end.host if each.alive else None,
        "port": end.port if each.alive else None,
        "rack": end.rack if each.alive else None,
        "alive": each.alive,
        "epoch": each.broker_epoch if each.alive else None,
        "shutting_down": each.shutting_down,
        "drained": each.drained,
        "queued": each.queued_state_changes,
        "oldest_at": oldest_ms,
        "oldest_age_ms": None if oldest_ms is None else max(0, now_ms - oldest_ms),
    }


@broker.command()
@click.argument("broker_id", metavar="ID", type=BROKER_ID)
@click.option("--replicas", is_flag=True, help="Move its replicas away too, not only its leaderships.")
@click.option(
    "--throttle", type=click.IntRange(min=1), metavar="BYTES",
    help="Limit for each partition's new replica, bytes a second. If it is given again, it also applies to "
         "the moves of this drain that are under way.",
)  # fmt: skip
@click.option("--until-restart", is_flag=True, help="The drain ends when the broker is registered again.")
@click.option("--undo", is_flag=True, help="Undo the drain; moves that have begun continue.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until nothing is left.")
@click.option(
    "--except-permanent", is_flag=True,
    help="Also succeed if only partitions without another replica are left to lead.",
)  # fmt: skip
@pass_invocation
def drain(
    invocation: Invocation,
    broker_id: int,
    replicas: bool,
    throttle: int | None,
    until_restart: bool,
    undo: bool,
    wait: bool,
    except_permanent: bool,
) -> None:
    """Move all leaderships away from the broker ID, and with --replicas all of its replicas.

    The drain continues without this command until --undo, even if the broker restarts. A drain of leaderships
    also ends when the broker was restarted and `broker ready` finds it ready; with --until-restart no `broker
    ready` is needed. Exits with 1 if something cannot be moved, at once if only partitions without another
    replica are left, since waiting does not help; and if the drain ends meanwhile, as by --undo. With
    --no-wait, exits with 0 once the drain has begun, and shows what cannot be moved for now.
    """
    if throttle is not None and not replicas:
        raise click.UsageError("--throttle limits replicas that move: give --replicas as well")
    if until_restart and (undo or replicas):
        raise click.UsageError("--until-restart is for leaderships: leave out --replicas and --undo")
    if undo and replicas:
        raise click.UsageError("--undo undoes the whole drain: leave out --replicas")
    if except_permanent and (undo or not wait):
        raise click.UsageError(
            "--except-permanent applies to what is left after waiting: leave out --undo and --no-wait"
        )
    from strandline import Admin

    wanted: dict[str, Any] = {
        "replicas": replicas,
        "throttle_bytes_per_s": throttle or 0,
        "until_restart": until_restart,
    }

    async def main() -> tuple[DrainProgress, bool]:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            if undo:
                progress = await admin.undrain_broker(broker_id)
                if (moving := still_leaving(broker_id, await admin.list_reassignments())) is not None:
                    invocation.out.note(moving)
                return progress, False
            if not wait:
                return await admin.drain_broker(broker_id, **wanted), True
            return await drained(admin, broker_id, wanted, invocation.out.note)

    progress, stands = run(main)
    left = progress.leaderships > 0 or (replicas and progress.replicas > 0)
    permanent = stands and _only_permanent_left(progress)
    state = "undone" if not stands else "left" if left else "done"
    _show(invocation, broker_id, progress, state, permanent)
    if not stands and not undo:
        invocation.out.note(f"broker {broker_id} {NO_LONGER_DRAINED}")
    if permanent and not except_permanent:
        invocation.out.note(WAY_OUT_OF_DRAIN)
    if permanent and except_permanent:
        return
    if not undo and (not stands or (wait and left)):
        click.get_current_context().exit(FAILED)


def _show(
    invocation: Invocation, broker_id: int, progress: DrainProgress, state: str, permanent: bool
) -> None:
    """`state`: undone, left or done."""
    if invocation.out.json:
        invocation.out.emit(
            {
                "broker": broker_id,
                "drained": state == "done",
                "leaderships": progress.leaderships,
                "replicas": progress.replicas,
                "problems": list(progress.problems),
                "permanent": progress.permanent,
            }
        )
    else:
        done = {"undone": "drain taken back", "left": "drain under way", "done": "drained"}[state]
        if permanent:
            done = "drained but for partitions without another replica"
        leads = counted(progress.leaderships, "leadership")
        invocation.out.line(f"broker {broker_id}: {done}, {leads}, {counted(progress.replicas, 'replica')}")
        for problem in progress.problems:
            invocation.out.note(problem)


def _only_permanent_left(progress: DrainProgress) -> bool:
    """True if only partitions without another replica are left. A drain of replicas moves those too."""
    return 0 < progress.leaderships == progress.permanent


async def drained(
    admin: Admin,
    broker_id: int,
    wanted: Mapping[str, Any],
    note: Callable[[str], None],
    clock: Clock | None = None,
) -> tuple[DrainProgress, bool]:
    """Waits until nothing is left, or nothing moves, or the drain has ended. Returns the last progress, and
    False if the drain has ended. `wanted`: of the drain; `clock` as for `followed`."""
    known: DrainProgress | None = None
    stands = True

    async def look() -> DrainProgress:
        """The same request would begin a drain anew that another has taken back."""
        nonlocal known, stands
        if known is not None:
            brokers = (await admin.describe_cluster()).brokers
            stands = any(each.drained and each.endpoint.id == broker_id for each in brokers)
            if not stands:
                return known
        known = await admin.drain_broker(broker_id, **wanted)
        return known

    def left(progress: DrainProgress) -> tuple[int, int]:
        return progress.leaderships, progress.replicas if wanted["replicas"] else 0

    def line(progress: DrainProgress) -> str:
        what = counted(progress.leaderships, "leadership")
        if wanted["replicas"]:
            what += f" and {counted(progress.replicas, 'replica')}"
        return f"broker {broker_id} still has {what}"

    progress = await followed(
        look,
        f"broker {broker_id}",
        is_over=lambda progress: not stands or left(progress) == (0, 0) or _only_permanent_left(progress),
        line=line,
        note=note,
        look_again_s=LOOK_AGAIN_S,
        clock=clock,
    )
    return progress, stands


def still_leaving(broker_id: int, moving: Sequence[OngoingReassignment]) -> str | None:
    """A message about moves that still run after a drain was undone; None if there are none."""
    leaving = [
        each
        for each in moving
        if broker_id in each.original and broker_id not in each.replicas and not each.reverting
    ]
    if not leaving:
        return None
    first, slowest = leaving[0], min((each.throttle_bytes_per_s for each in leaving), default=0)
    others = f" and {len(leaving) - 1} more" if len(leaving) > 1 else ""
    throttle = f", at {slowest} bytes a second" if slowest else ""
    return (
        f"{first.name}{others} still moves away from broker {broker_id}{throttle}: `topic reassign --list` "
        "lists what moves, `topic reassign NAME --partition P --cancel` takes one back"
    )


@broker.command()
@click.argument("broker_id", metavar="ID", type=BROKER_ID)
@pass_invocation
def forget(invocation: Invocation, broker_id: int) -> None:
    """Remove what the cluster keeps of the broker ID, which is stopped and will not return.

    It must have no replicas: `broker drain ID --replicas` moves them away. State changes that wait for it
    fail. A broker of this folder's cluster also leaves the folder's list, so that `up` does not start it; its
    data stays. If it returns, it registers as a new broker.
    """
    from strandline import Admin, LocalCluster

    async def main() -> ForgottenBroker:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            forgotten = await admin.forget_broker(broker_id)
        if invocation.named_bootstrap() is None:
            cluster = LocalCluster.open(invocation.directory)
            if broker_id in cluster.broker_ids:
                await cluster.remove_broker(broker_id)
                invocation.out.note(f"its data stays in {cluster.directory}/brokers/{broker_id}")
        return forgotten

    forgotten = run(main)
    if invocation.out.json:
        invocation.out.emit(
            {"broker": broker_id, "was_known": forgotten.was_known, "requests": forgotten.requests}
        )
    elif forgotten.was_known:
        invocation.out.line(f"broker {broker_id}: forgotten, {counted(forgotten.requests, 'request')} failed")
    else:
        invocation.out.line(f"broker {broker_id} is not known: there is nothing to forget")


@broker.command()
@click.argument("broker_id", metavar="ID", type=BROKER_ID)
@click.option(
    "--wait", "wait_s", type=FiniteRange(min=0), metavar="S", default=0.0,
    help="Ask again for at most this many seconds, while waiting may help.",
)  # fmt: skip
@click.option(
    "--except-permanent", is_flag=True,
    help="Also succeed if only partitions that need all their replicas in sync are in the way.",
)  # fmt: skip
@pass_invocation
def ready(invocation: Invocation, broker_id: int, wait_s: float, except_permanent: bool) -> None:
    """Check if the broker ID is caught up and may be stopped safely.

    It may be stopped if it is in the ISR of all its assigned partitions, its queue is empty, and each of
    these partitions has min.insync.replicas members in sync without it. Exits with 0 only then. Otherwise
    exits with 1 and lists the problems: at once if only partitions that need all their replicas in sync are
    left, since waiting does not help. A ready broker that was restarted since its leaderships were drained
    may lead again: this ends the drain.
    """
    from strandline import Admin

    async def main() -> BrokerCheck:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            return await _checked(admin, broker_id, wait_s, invocation.out.note)

    check = run(main)
    if check.drain_ended:
        invocation.out.note(f"broker {broker_id} is back: its drain is over, and it may lead again")
    if invocation.out.json:
        invocation.out.emit(
            {
                "broker": broker_id,
                "ready": check.ready,
                "problems": list(check.problems),
                "permanent": list(check.permanent),
                "leaderships": check.leaderships,
                "replicas": check.replicas,
                "drain_ended": check.drain_ended,
            }
        )
    elif check.ready:
        in_sync = f"{counted(check.replicas, 'replica')} in sync, {check.leaderships} led"
        invocation.out.line(f"broker {broker_id} is ready: {in_sync}")
    else:
        but = "ready but for partitions that can never spare it"
        what = but if check.is_ready_but_for_permanent else "not ready"
        invocation.out.line(f"broker {broker_id} is {what}")
        for problem in check.problems:
            invocation.out.note(problem)
    if except_permanent and check.is_ready_but_for_permanent:
        return
    if check.is_ready_but_for_permanent and not check.ready:
        invocation.out.note(WAY_OUT_OF_READY)
    if not check.ready:
        click.get_current_context().exit(FAILED)


async def _checked(admin: Admin, broker_id: int, wait_s: float, note: Callable[[str], None]) -> BrokerCheck:
    """The last answer: the first one that is ready or that waiting cannot change, or the one at the end of
    the time. `note` gets the current reason from time to time."""
    from strandline.adapters.system.clock import SystemClock
    from strandline.errors import StrandlineError

    clock = SystemClock()
    deadline = clock.monotonic() + wait_s
    waits = Waits(note, clock)
    while True:
        try:
            check = await admin.check_broker(broker_id, end_drain=True)
            if check.is_ready_but_for_permanent or clock.monotonic() >= deadline:
                return check
            waiting = first_of(check.problems)
        except StrandlineError as error:
            if not error.retriable or clock.monotonic() >= deadline:
                raise
            waiting = error.message
        waits.show(f"not ready yet: {waiting}")
        await clock.sleep(LOOK_AGAIN_S)
