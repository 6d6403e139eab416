"""`strandline-lab chaos`: injects faults into a cluster under load, and checks what it guarantees."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from strandline.cli.shell.command import Command, Invocation, pass_invocation, run
from strandline.cli.shell.numbers import FiniteRange
from strandline.errors import StrandlineError

if TYPE_CHECKING:
    from strandline_lab.chaos.core.load import ClientRoles
    from strandline_lab.chaos.round import Outcome
    from strandline_lab.chaos.rounds import OpenWorld
    from strandline_lab.chaos.timeline import ShowLine

FOUND: Final = 2
SEED_MAX: Final = 2**31 - 1
SECONDS_MIN: Final = 5
"""The shortest round; in less time there is no strike."""
SECONDS_MAX: Final = 86_400
DEFAULT_OUT: Final = Path(".chaos")


class FaultsType(click.ParamType["frozenset[str]"]):
    """Kinds of faults, separated by commas."""

    name = "faults"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[str]:
        """Reads the names; an unknown one is wrong usage."""
        from strandline_lab.chaos.core.faults import FaultKind

        if isinstance(value, frozenset):
            return value
        names = frozenset(filter(None, value.split(",")))
        known = [str(kind) for kind in FaultKind]
        if not names:
            self.fail(f"give at least one of {', '.join(known)}", param, ctx)
        for name in sorted(names.difference(known)):
            self.fail(f"there is no fault {name!r}; there are {', '.join(known)}", param, ctx)
        return names


@click.command(cls=Command)
@click.option(
    "--seconds", type=FiniteRange(min=SECONDS_MIN, max=SECONDS_MAX), default=60.0, show_default=True,
    metavar="S", help="Time for faults; healing and judging come after it.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(0, SEED_MAX), help="Repeat the round of this seed; default: random."
)
@click.option(
    "--rounds", type=click.IntRange(min=1), help="Seeds count up. Default: 1, with --hours any number."
)
@click.option("--hours", type=FiniteRange(min=0), metavar="H", help="Begin no other round after this time.")
@click.option("--brokers", type=click.IntRange(min=2, max=9), default=3, show_default=True)
@click.option("--controllers", type=click.IntRange(min=1, max=5), default=2, show_default=True)
@click.option(
    "--containers", is_flag=True,
    help="Use containers, whose numbers of brokers and controllers are fixed; see `make chaos`.",
)  # fmt: skip
@click.option(
    "--zookeepers", type=click.Choice(["1", "3"]), default="1", show_default=True,
    help="ZooKeeper containers.",
)  # fmt: skip
@click.option(
    "--faults",
    type=FaultsType(),
    help="Only these kinds, separated by commas; default: all but an operator's.",
)
@click.option(
    "--kafka-clients/--no-kafka-clients", default=None,
    help="Have Kafka clients among those that write and read; default: if their libraries are installed.",
)  # fmt: skip
@click.option(
    "--secure", is_flag=True,
    help="Encrypt every connection, with certificates and ACLs.",
)  # fmt: skip
@click.option(
    "--operator", is_flag=True,
    help="Add and balance brokers too, and empty the disk of one.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=DEFAULT_OUT, show_default=True,
    help="Folder for the rounds' folders, seed-N.",
)  # fmt: skip
@pass_invocation
def chaos(invocation: Invocation, /, hours: float | None, out: Path, **wanted: Any) -> None:
    """Kill, stop and fill the disks of a temporary cluster while clients write and read, and judge the
    result.

    Exits with 0 if all is well, 2 if a problem was found or the cluster did not recover, 1 if it could not be
    run.
    """
    import asyncio

    from strandline.adapters.system.clock import SystemClock
    from strandline_lab.chaos.kafka.installed import described, roles_for
    from strandline_lab.chaos.signals import INTERRUPTED, cancelled_by_signals

    if wanted["containers"] and (wanted["secure"] or wanted["operator"]):
        raise click.UsageError("--secure and --operator are for processes of this machine: no --containers")
    roles = roles_for(wanted["kafka_clients"])
    clock = SystemClock()

    async def main() -> bool:
        cancelled_by_signals()
        ends = None if hours is None else clock.monotonic() + hours * 3600
        _show(invocation, described(roles))
        unwell = []
        seeds = seeds_of(wanted["seed"], wanted["rounds"], endless=hours is not None)
        for seed in seeds:
            try:
                well = await _round(invocation, seed, roles, out, wanted)
            except (StrandlineError, OSError) as error:
                if ends is None:
                    raise
                _show(invocation, f"seed {seed}: could not be run: {error}")
                well = False
            if not well:
                unwell.append(seed)
            if ends is not None and clock.monotonic() >= ends:
                break
        if unwell:
            _show(invocation, f"not well: seeds {', '.join(map(str, unwell))}")
        return not unwell

    try:
        well = run(main)
    except asyncio.CancelledError:
        click.get_current_context().exit(INTERRUPTED)
    if not well:
        click.get_current_context().exit(FOUND)


def seeds_of(first: int | None, rounds: int | None, *, endless: bool) -> Iterator[int]:
    """The seeds of all rounds, from a random one unless the first is given."""
    import secrets

    start = secrets.randbelow(SEED_MAX) if first is None else first
    return itertools.count(start) if endless and rounds is None else iter(range(start, start + (rounds or 1)))


async def _round(
    invocation: Invocation, seed: int, roles: ClientRoles, out: Path, wanted: Mapping[str, Any]
) -> bool:
    """Plays one round. Returns whether all is well. Raises WorldFailed, StrandlineError."""
    from strandline_lab.chaos.core.faults import OPERATED, FaultKind
    from strandline_lab.chaos.rounds import free_folder, play

    faults, seconds = wanted["faults"], wanted["seconds"]
    kinds = frozenset(FaultKind) - OPERATED if faults is None else frozenset(map(FaultKind, faults))
    if wanted["operator"]:
        kinds |= OPERATED
    show = partial(_show, invocation)
    members = f"{wanted['brokers']} brokers, {wanted['controllers']} controllers"
    show(f"seed {seed}: {'containers' if wanted['containers'] else members}, {seconds:g} s")
    outcome = await play(
        _world_of(wanted), seed, seconds, kinds, roles, free_folder(out, seed), show,
        command_of(seed, roles, wanted),
    )  # fmt: skip
    show_outcome(invocation, outcome, show)
    return outcome.ok


def _world_of(wanted: Mapping[str, Any]) -> OpenWorld:
    """The kind of cluster that the rounds run on."""
    if wanted["containers"]:
        from strandline_lab.chaos.containers.world import container_world

        return partial(container_world, zookeepers=int(wanted["zookeepers"]))
    from strandline_lab.chaos.processes import local_world

    return partial(local_world, wanted["brokers"], wanted["controllers"], secure=wanted["secure"])


def command_of(seed: int, roles: ClientRoles, wanted: Mapping[str, Any]) -> str:
    """The command that repeats the round of a seed."""
    members = f"--brokers {wanted['brokers']} --controllers {wanted['controllers']}"
    if wanted["containers"]:
        members = f"--containers --zookeepers {wanted['zookeepers']}"
    words = [f"strandline-lab chaos --seed {seed} --seconds {wanted['seconds']:g} {members} {roles.option}"]
    words += [f"--{name}" for name in ("secure", "operator") if wanted[name]]
    if wanted["faults"] is not None:
        words.append(f"--faults {','.join(sorted(wanted['faults']))}")
    return " ".join(words)


def _show(invocation: Invocation, line: str) -> None:
    if invocation.out.json:
        invocation.out.note(line)
    else:
        click.echo(line)


def show_outcome(invocation: Invocation, outcome: Outcome, show: ShowLine) -> None:
    """Shows the result of a round."""
    if invocation.out.json:
        invocation.out.emit(
            {
                "seed": outcome.seed,
                "ok": outcome.ok,
                "settled_ms": outcome.settled_ms,
                "writable_ms": outcome.writable_ms,
                "findings": [finding._asdict() for finding in outcome.findings],
                "out": str(outcome.out),
            },
            flush=True,
        )
    for line in outcome.lines():
        show(line)
