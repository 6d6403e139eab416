"""`strandline-lab chaos`: injects faults into a cluster under load, and checks what it guarantees."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from strandline.cli.shell.command import Command, Invocation, pass_invocation, run
from strandline.cli.shell.numbers import FiniteRange

if TYPE_CHECKING:
    from strandline_lab.chaos.round import Verdict

FOUND: Final = 2
SEED_MAX: Final = 2**31 - 1
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
    "--seconds", type=FiniteRange(min=5, max=SECONDS_MAX), default=60.0, show_default=True, metavar="S",
    help="Time for faults; healing and judging come after it.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(0, SEED_MAX), help="Repeat the round of this seed; default: random."
)
@click.option("--rounds", type=click.IntRange(min=1), default=1, show_default=True, help="Seeds count up.")
@click.option("--brokers", type=click.IntRange(min=2, max=9), default=3, show_default=True)
@click.option("--controllers", type=click.IntRange(min=1, max=5), default=2, show_default=True)
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
def chaos(
    invocation: Invocation,
    seconds: float,
    seed: int | None,
    rounds: int,
    brokers: int,
    controllers: int,
    faults: frozenset[str] | None,
    kafka_clients: bool | None,
    secure: bool,
    operator: bool,
    out: Path,
) -> None:
    """Kill, stop and fill the disks of a temporary cluster while clients write and read, and judge the
    result.

    Exits with 0 if all is well, 2 if a problem was found or the cluster did not recover, 1 if it could not be
    run.
    """
    import secrets

    from strandline_lab.chaos.core.faults import OPERATED, FaultKind
    from strandline_lab.chaos.kafka.installed import described, roles_for
    from strandline_lab.chaos.processes import local_world
    from strandline_lab.chaos.rounds import free_folder, play

    roles = roles_for(kafka_clients)
    first = secrets.randbelow(SEED_MAX) if seed is None else seed
    kinds = frozenset(FaultKind) - OPERATED if faults is None else frozenset(map(FaultKind, faults))
    if operator:
        kinds |= OPERATED

    again = f"strandline-lab chaos --seed {{}} --seconds {seconds:g}"
    again += f" --brokers {brokers} --controllers {controllers}"
    again += f" {roles.option}{' --secure' if secure else ''}{' --operator' if operator else ''}"
    if faults is not None:
        again += f" --faults {','.join(sorted(faults))}"

    def show(line: str) -> None:
        if invocation.out.json:
            invocation.out.note(line)
        else:
            click.echo(line)

    async def main() -> bool:
        well = True
        show(described(roles))
        for number in range(first, first + rounds):
            show(f"seed {number}: {brokers} brokers, {controllers} controllers, {seconds:g} s")
            verdict = await play(
                partial(local_world, brokers, controllers, secure=secure),
                number,
                seconds,
                kinds,
                roles,
                free_folder(out, number),
                show,
                again.format(number),
            )
            show_verdict(invocation, verdict, show)
            well = well and verdict.ok
        return well

    if not run(main):
        click.get_current_context().exit(FOUND)


def show_verdict(invocation: Invocation, verdict: Verdict, show: Any) -> None:
    """Shows the result of a round."""
    if invocation.out.json:
        invocation.out.emit(
            {
                "seed": verdict.seed,
                "ok": verdict.ok,
                "settled_ms": verdict.settled_ms,
                "writable_ms": verdict.writable_ms,
                "findings": [finding._asdict() for finding in verdict.findings],
                "out": str(verdict.out),
            },
            flush=True,
        )
    for line in verdict.lines():
        show(line)
