"""`strandline cluster balance`: plans an even spread of replicas, carries it out, and shows how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from strandline.cli.cluster.placement import replicas_of
from strandline.cli.shell.command import FAILED, Group, Invocation, pass_invocation, run
from strandline.cli.shell.following import followed
from strandline.report.text.counts import counted
from strandline.report.text.durations import age
from strandline.report.text.sizes import size

if TYPE_CHECKING:
    from strandline import Admin
    from strandline.vocabulary.admin import BalanceDescription, BalancePlan, BrokerLoad
    from strandline.vocabulary.metadata import BalanceMove

LOOK_AGAIN_S: Final = 1.0


@click.group(cls=Group)
def cluster() -> None:
    """Spread replicas and leaders evenly over the brokers."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options of one call."""

    brokers: tuple[int, ...]
    topics: tuple[str, ...]
    throttle: int
    dry_run: bool
    wait: bool


@cluster.command()
@click.option("--dry-run", is_flag=True, help="Only show the plan.")
@click.option(
    "--brokers", metavar="ID,…", callback=replicas_of,
    help="Balance between these brokers only; otherwise between all that may get replicas.",
)  # fmt: skip
@click.option(
    "--topic", "topics", metavar="NAME", multiple=True,
    help="Balance the partitions of this topic only; may be given more than once.",
)  # fmt: skip
@click.option(
    "--throttle", type=click.IntRange(min=1), metavar="BYTES",
    help="Limit for each partition's new replicas, bytes a second.",
)  # fmt: skip
@click.option("--wait", is_flag=True, help="Show the progress until the balance has ended.")
@click.option("--status", is_flag=True, help="Show how far the balance is; with --wait until its end.")
@click.option("--pause", is_flag=True, help="Begin no more moves; those that have begun continue.")
@click.option("--resume", is_flag=True, help="Continue a paused balance.")
@click.option("--cancel", is_flag=True, help="End the balance; moves that have begun continue.")
@click.option("--revert", is_flag=True, help="With --cancel: take back the moves that are under way.")
@pass_invocation
def balance(
    invocation: Invocation,
    dry_run: bool,
    brokers: tuple[int, ...],
    topics: tuple[str, ...],
    throttle: int | None,
    wait: bool,
    status: bool,
    pause: bool,
    resume: bool,
    cancel: bool,
    revert: bool,
) -> None:
    """Spread replicas and preferred leaders evenly over the brokers, with the fewest copies.

    Each partition stays in as many racks as it is in. Replicas on brokers that are down, drained or not named
    stay where they are. The balance continues without this command, a few partitions at a time; --status
    shows how far it is. Exits with 1 if moves are skipped or cannot begin, and with --wait if it
    is paused or cancelled meanwhile.
    """
    given = {"status": status, "pause": pause, "resume": resume, "cancel": cancel}
    chosen = [name for name, is_given in given.items() if is_given]
    _check(chosen, plans=bool(dry_run or brokers or topics or throttle), dry_run=dry_run, wait=wait)
    if revert and not cancel:
        raise click.UsageError("--revert takes back what a balance has begun: give --cancel as well")
    if chosen:
        _follow(invocation, chosen[0], revert, wait)
    else:
        _start(invocation, _Asked(brokers, topics, throttle or 0, dry_run, wait))


def _check(chosen: list[str], *, plans: bool, dry_run: bool, wait: bool) -> None:
    """Raises UsageError."""
    if len(chosen) > 1:
        raise click.UsageError(f"--{chosen[0]} and --{chosen[1]} exclude each other")
    if chosen and plans:
        raise click.UsageError(
            f"--{chosen[0]} is about the balance under way: leave out --dry-run, --brokers, --topic and "
            "--throttle"
        )
    if wait and (dry_run or chosen[:1] in (["pause"], ["cancel"])):
        raise click.UsageError("--wait waits for the end of a balance: there is none to wait for")


def _start(invocation: Invocation, asked: _Asked) -> None:
    from strandline import Admin

    async def main() -> tuple[BalancePlan, BalanceDescription | None]:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            if asked.dry_run:
                return await admin.plan_balance(brokers=asked.brokers, topics=asked.topics), None
            plan = await admin.start_balance(
                brokers=asked.brokers, topics=asked.topics, throttle_bytes_per_s=asked.throttle
            )
            if plan.moves and not invocation.out.json:
                _show_plan(invocation, plan, asked.throttle, started=True)
            ended = await _ended(admin, invocation) if asked.wait and plan.moves else None
            return plan, ended

    plan, ended = run(main)
    if invocation.out.json:
        invocation.out.emit(
            _plan_row(plan, started=not asked.dry_run) if ended is None else _status_row(ended)
        )
    elif not plan.moves:
        _show_loads(invocation, plan)
        invocation.out.line("the spread is even: nothing moves")
    elif asked.dry_run:
        _show_plan(invocation, plan, asked.throttle, started=False)
    if ended is not None:
        _end(invocation, ended, waited=True)


def _follow(invocation: Invocation, what: str, revert: bool, wait: bool) -> None:
    from strandline import Admin

    async def main() -> BalanceDescription:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            asked: dict[str, Callable[[], Any]] = {
                "status": admin.describe_balance,
                "pause": admin.pause_balance,
                "resume": admin.resume_balance,
                "cancel": lambda: admin.cancel_balance(revert=revert),
            }
            described: BalanceDescription = await asked[what]()
            return await _ended(admin, invocation) if wait else described

    described = run(main)
    if invocation.out.json:
        invocation.out.emit(_status_row(described))
    _end(invocation, described, waited=wait)


def _end(invocation: Invocation, described: BalanceDescription, *, waited: bool) -> None:
    """Shows the state of a balance, and exits with FAILED if it `fell_short`."""
    if not invocation.out.json:
        invocation.out.line(progress_line(described))
        for reason in (*described.problems, *described.skipped_because):
            invocation.out.note(reason)
    if fell_short(described, waited=waited):
        click.get_current_context().exit(FAILED)


def fell_short(described: BalanceDescription, *, waited: bool) -> bool:
    """Whether some of a balance was or is not done; after a wait, also if it was paused or cancelled."""
    from strandline.vocabulary.metadata import BalanceState

    given_up = waited and described.state in (BalanceState.PAUSED, BalanceState.CANCELLED)
    return bool(described.problems or described.skipped or given_up)


async def _ended(admin: Admin, invocation: Invocation) -> BalanceDescription:
    """Waits until the balance has ended, is paused, or does not get on. Returns how far it is then."""
    from strandline.vocabulary.metadata import BalanceState

    return await followed(
        admin.describe_balance,
        "the balance",
        is_over=lambda described: described.state is not BalanceState.RUNNING,
        line=progress_line,
        note=invocation.out.note,
        look_again_s=LOOK_AGAIN_S,
    )


def progress_line(described: BalanceDescription) -> str:
    """How far a balance is, for people."""
    if described.moves == 0:
        return "there was no balance"
    skipped = f", {described.skipped} skipped" if described.skipped else ""
    return (
        f"balance {described.state}: {described.done} of {described.moves} moves done, "
        f"{described.moving} under way, {described.left} left{skipped}"
    )


# --- plans --------------------------------------------------------------------------------------


def _show_plan(
    invocation: Invocation, plan: BalancePlan, throttle_bytes_per_s: int, *, started: bool
) -> None:
    if not started:
        moves = [(str(move.name), *_from_to(move), move.after, move.bytes) for move in plan.moves]
        invocation.out.table(("partition", "from", "to", "replicas", "bytes"), moves)
        invocation.out.line("")
    _show_loads(invocation, plan)
    order = sum(not move.added for move in plan.moves)
    invocation.out.line(
        f"{'begins' if started else 'would make'} {counted(len(plan.moves), 'move')}: "
        f"{counted(plan.copies, 'replica')} to copy, {plan.copied_bytes} bytes; "
        f"{counted(order, 'partition')} only with another preferred leader"
    )
    if throttle_bytes_per_s and plan.copied_bytes:
        longest_ms = plan.longest_ms(throttle_bytes_per_s)
        takes = f"the largest move takes about {age(longest_ms)}" if longest_ms else "hardly felt by any move"
        invocation.out.line(f"at most {size(throttle_bytes_per_s)}/s for each partition: {takes}")
    if plan.left_out:
        invocation.out.line(f"left for another balance: {counted(plan.left_out, 'further move')}")


def _show_loads(invocation: Invocation, plan: BalancePlan) -> None:
    columns = ("broker", "replicas", "", "preferred", "", "bytes", "", "")
    rows = [
        (
            load.broker, load.replicas_before, f"→ {load.replicas_after}", load.leads_before,
            f"→ {load.leads_after}", load.bytes_before, f"→ {load.bytes_after}", _why_kept(load),
        )
        for load in plan.loads
    ]  # fmt: skip
    invocation.out.table(columns, rows)


def _why_kept(load: BrokerLoad) -> str:
    return f"stays as it is: {load.kept_because}" if load.kept_because else ""


def _from_to(move: BalanceMove) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The brokers that give up a replica, and those that copy one; without a copy the preferred leaders."""
    return (move.removed, move.added) if move.added else (move.before[:1], move.after[:1])


def _plan_row(plan: BalancePlan, *, started: bool) -> dict[str, Any]:
    return {
        "started": started and bool(plan.moves),
        "moves": [
            {
                "topic": move.name.topic,
                "partition": move.name.partition,
                "before": list(move.before),
                "after": list(move.after),
                "bytes": move.bytes,
            }
            for move in plan.moves
        ],
        "copies": plan.copies,
        "copied_bytes": plan.copied_bytes,
        "left_out": plan.left_out,
        "brokers": [
            {
                "broker": load.broker,
                "kept_because": load.kept_because or None,
                "before": {
                    "replicas": load.replicas_before,
                    "preferred": load.leads_before,
                    "bytes": load.bytes_before,
                },
                "after": {
                    "replicas": load.replicas_after,
                    "preferred": load.leads_after,
                    "bytes": load.bytes_after,
                },
            }
            for load in plan.loads
        ],
    }


def _status_row(described: BalanceDescription) -> dict[str, Any]:
    return {
        "state": described.state.value,
        "at": described.at_ms or None,
        "throttle": described.throttle_bytes_per_s or None,
        "moves": described.moves,
        "done": described.done,
        "moving": described.moving,
        "left": described.left,
        "skipped": described.skipped,
        "problems": list(described.problems),
        "skipped_because": list(described.skipped_because),
    }
