"""`strandline topic reassign`: moves replicas, and shows, throttles and cancels their moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from strandline.cli.cluster.moves import show_moves, throttle_moves
from strandline.cli.cluster.settling import Settling, ongoing
from strandline.cli.shell.command import Command, Invocation, pass_invocation, run
from strandline.cli.shell.numbers import FiniteRange
from strandline.ids import TopicPartition, named_twice


def replicas_of(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[int, ...]:
    """Reads `1,2,3` as broker ids. Raises click.BadParameter, also for an id that is named twice."""
    try:
        brokers = () if value is None else tuple(int(each) for each in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not of the form 1,2,3") from None
    if (twice := named_twice(brokers)) is not None:
        raise click.BadParameter(f"{value!r} names broker {twice} twice")
    return brokers


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments of `topic reassign`."""

    names: tuple[str, ...]
    partition: int | None
    replicas: tuple[int, ...]
    throttle: int | None
    timeout_s: float | None
    cancel_at_deadline: bool
    cancel: bool
    wait: bool
    listing: bool
    watch: bool
    everything: bool

    @property
    def throttles(self) -> bool:
        """It is about the throttle of moves that are under way."""
        return self.throttle is not None and not self.replicas and not self.cancel

    def check(self) -> None:
        """Raises click.UsageError."""
        if [bool(self.replicas), self.cancel, self.listing, self.throttles].count(True) != 1:
            raise click.UsageError(
                "give one of --replicas ID,…, --cancel, --list, and --throttle BYTES alone"
            )
        deadline = self.timeout_s is not None or self.cancel_at_deadline
        if not self.replicas and deadline:
            raise click.UsageError("--timeout and --cancel-at-deadline are for a move: leave them out")
        if self.cancel and self.throttle is not None:
            raise click.UsageError("--throttle is for moves that go on: leave it or --cancel out")
        if self.cancel_at_deadline and self.timeout_s == 0:
            raise click.UsageError("--timeout 0 is no deadline: leave it or --cancel-at-deadline out")
        for name, given, fits in (
            ("--wait", self.wait, bool(self.replicas) or self.cancel),
            ("--watch", self.watch, self.listing),
            ("--all", self.everything, self.throttles),
        ):
            if given and not fits:
                raise click.UsageError(f"{name} has nothing to do here: leave it out")
        self._check_names()

    def _check_names(self) -> None:
        if self.listing:
            if self.names or self.partition is not None:
                raise click.UsageError("--list shows all moves: name no topic")
        elif self.throttles:
            if self.everything == bool(self.names):
                raise click.UsageError("give either names of topics or --all")
            if self.partition is not None and len(self.names) != 1:
                raise click.UsageError("--partition is of one topic: name it, and no other")
        elif self.partition is None or len(self.names) != 1:
            raise click.UsageError("a move is of one partition: give its topic NAME and --partition")


@click.command(cls=Command)
@click.argument("names", nargs=-1)
@click.option("--partition", type=click.IntRange(min=0), help="The partition of the one topic NAME.")
@click.option(
    "--replicas", metavar="ID,…", callback=replicas_of,
    help="Brokers that should have the partition; the first is the preferred leader.",
)  # fmt: skip
@click.option(
    "--throttle", type=click.IntRange(0, 2**63 - 1), metavar="BYTES",
    help="Limit for each partition's new replicas, bytes a second; 0: none but those of the brokers. "
    "Without --replicas: for the moves of NAMES that are under way.",
)  # fmt: skip
@click.option(
    "--timeout", "timeout_s", type=FiniteRange(min=0), metavar="S",
    help="The move is overdue after this many seconds; 0: never; default: the controller's time.",
)  # fmt: skip
@click.option("--cancel-at-deadline", is_flag=True, help="Take the move back when it is overdue.")
@click.option("--cancel", is_flag=True, help="Cancel the reassignment: the replicas stay as they were.")
@click.option("--wait", is_flag=True, help="Wait until it is complete.")
@click.option("--list", "listing", is_flag=True, help="List the partitions whose replicas are moving.")
@click.option("--watch", is_flag=True, help="With --list: again every two seconds, until no replica moves.")
@click.option("--all", "everything", is_flag=True, help="With --throttle: all partitions that are moving.")
@pass_invocation
def reassign(invocation: Invocation, /, **arguments: Any) -> None:
    """Give a partition of the topic NAME other replicas, or the same ones in another order.

    The reassignment continues without this command. Another request while it is under way changes its target.
    Warns of brokers that are not alive, and of replicas in one rack. With --wait, exits with 1 and the reason
    once the move is overdue; it goes on, unless --cancel-at-deadline is given.

    --list shows the moves under way: the bytes that the new replicas have and lack, the rate of the last
    seconds, and the time that is left at this pace. The leaders of the partitions tell these. A replica that
    does not come closer, because producers write as fast as it is copied, has no time left.

    --throttle without --replicas changes the throttle of moves under way, of the topics NAMES or of --all.
    Their targets stay, and so do the throttles of later reassignments. Exits with 1 if a topic that is named
    has no partition that moves.
    """
    asked = Asked(**arguments)
    asked.check()
    if asked.listing:
        show_moves(invocation, watch=asked.watch)
    elif asked.throttles:
        throttle_moves(invocation, asked.names, asked.partition, asked.throttle or 0)
    else:
        _move(invocation, asked, TopicPartition(asked.names[0], asked.partition or 0))


def _move(invocation: Invocation, asked: Asked, where: TopicPartition) -> None:
    """Begin a move, or cancel one."""
    from strandline import Admin

    warnings: Sequence[str] = ()

    async def main() -> Sequence[int] | None:
        nonlocal warnings
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            original: tuple[int, ...] = ()
            if asked.cancel:
                moving = await ongoing(admin, where)
                original = () if moving is None else tuple(moving.original)
                await admin.cancel_reassignment([where])
            else:
                warnings = await admin.reassign(
                    {where: asked.replicas},
                    throttle_bytes_per_s=asked.throttle or 0,
                    timeout_ms=None if asked.timeout_s is None else round(asked.timeout_s * 1000),
                    cancel_at_deadline=asked.cancel_at_deadline,
                )
                for warning in warnings:
                    invocation.out.note(f"warning: {warning}")
            if not asked.wait:
                return None
            settling = Settling(admin, where, asked.replicas or original, invocation.out.note)
            if asked.cancel:
                return await settling.cancelled()
            return await settling.moved(cancels=asked.cancel_at_deadline)

    now = run(main)
    if invocation.out.json:
        row = {"topic": where.topic, "partition": where.partition, "cancelled": asked.cancel}
        replicas = list(now or asked.replicas) or None
        invocation.out.emit({**row, "complete": asked.wait, "replicas": replicas, "warnings": list(warnings)})
    elif now is not None:
        invocation.out.line(f"{where} has replicas {','.join(map(str, now))}")
    else:
        invocation.out.line(f"{where}: {'goes back to what it was' if asked.cancel else 'under way'}")
