"""`python -m strandline_lab.chaos`: runs rounds until the time is over, each with its own seed."""

from __future__ import annotations

import argparse
import asyncio
import math
import secrets
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from strandline.adapters.system.clock import SystemClock
from strandline.errors import StrandlineError
from strandline_lab.chaos.core.faults import OPERATED, FaultKind
from strandline_lab.chaos.core.load import ClientRoles
from strandline_lab.chaos.kafka.installed import described, roles_for
from strandline_lab.chaos.processes import local_world
from strandline_lab.chaos.round import Verdict
from strandline_lab.chaos.rounds import SECONDS_MIN, OpenWorld, free_folder, play
from strandline_lab.chaos.signals import INTERRUPTED, cancelled_by_signals

FAILED: Final = 1
FOUND: Final = 2
SEED_MAX: Final = 2**31 - 1


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m strandline_lab.chaos", description=__doc__)
    parser.add_argument(
        "--seconds", type=_seconds, default=60.0, help="time for faults in each round, at least 5"
    )
    parser.add_argument(
        "--seeds", type=_at_least(0), nargs="*", default=[], help="seeds to use first, before random ones"
    )
    parser.add_argument("--rounds", type=_at_least(1), help="maximum number of rounds")
    parser.add_argument(
        "--hours", type=_hours, help="start no round after this time; without --rounds and --hours, one round"
    )
    parser.add_argument("--brokers", type=_at_least(2), default=3, help="number of broker processes")
    parser.add_argument("--controllers", type=_at_least(1), default=2, help="number of controller processes")
    parser.add_argument(
        "--containers", action="store_true", help="use containers, whose numbers of members are fixed"
    )
    parser.add_argument(
        "--zookeepers", type=int, choices=(1, 3), default=1, help="number of ZooKeeper containers"
    )
    parser.add_argument(
        "--kafka-clients", action=argparse.BooleanOptionalAction,
        help="have Kafka clients among those that write and read; default: if their libraries are installed",
    )  # fmt: skip
    parser.add_argument(
        "--secure", action="store_true",
        help="encrypt every connection, with certificates and ACLs; on processes of this machine",
    )  # fmt: skip
    parser.add_argument(
        "--operator", action="store_true",
        help="add and balance brokers, and empty the disk of one; on processes of this machine",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path(".chaos"), help="folder for the rounds' folders")
    wanted = parser.parse_args(given)
    for option in ("secure", "operator"):
        if wanted.containers and getattr(wanted, option):
            parser.error(f"--{option} is for processes of this machine: leave --containers out")
    return wanted


def _number(text: str, least: float, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not least <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}: give {what}")
    return number


def _seconds(text: str) -> float:
    return _number(text, SECONDS_MIN, f"a time of {SECONDS_MIN:g} s or more")


def _hours(text: str) -> float:
    return _number(text, 0, "a number of hours from 0 on")


def _at_least(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r}: give a whole number from {least}")
        return int(text)

    return read


def world_of(wanted: argparse.Namespace) -> OpenWorld:
    """The kind of cluster that the rounds run on."""
    if wanted.containers:
        from strandline_lab.chaos.containers.world import container_world

        return partial(container_world, zookeepers=wanted.zookeepers)
    return partial(local_world, wanted.brokers, wanted.controllers, secure=wanted.secure)


def command_of(wanted: argparse.Namespace, seed: int, roles: ClientRoles) -> str:
    """The command that repeats a seed."""
    members = f"--brokers {wanted.brokers} --controllers {wanted.controllers}"
    if wanted.containers:
        members = f"--containers --zookeepers {wanted.zookeepers}"
    if wanted.secure:
        members += " --secure"
    if wanted.operator:
        members += " --operator"
    return (
        f"python -m strandline_lab.chaos --seeds {seed} --seconds {wanted.seconds:g} {members} {roles.option}"
    )


async def rounds(wanted: argparse.Namespace) -> bool:
    """Runs the rounds. Returns True if all of them found the cluster healthy.

    Raises WorldFailed or StrandlineError for a round that could not be run. With `--hours`, such a round only
    counts as failed.
    """
    clock = SystemClock()
    roles = roles_for(wanted.kafka_clients)
    print(described(roles), flush=True)
    ends = clock.monotonic() + (wanted.hours or 0) * 3600
    count = wanted.rounds or (len(wanted.seeds) or 1 if wanted.hours is None else sys.maxsize)
    seeds = list(wanted.seeds)
    bad: list[int] = []
    played = 0
    while played < count and (wanted.hours is None or clock.monotonic() < ends):
        seed = seeds.pop(0) if seeds else secrets.randbelow(SEED_MAX)
        played += 1
        try:
            verdict = await _round(wanted, seed, roles)
        except (StrandlineError, OSError) as error:
            if wanted.hours is None:
                raise
            print(f"seed {seed}: could not be run: {error}", flush=True)
            bad.append(seed)
            continue
        for line in verdict.lines():
            print(line, flush=True)
        if not verdict.ok:
            bad.append(seed)
    named = f": seeds {', '.join(map(str, bad))}" if bad else ""
    print(f"{played} rounds, {len(bad)} not well{named}")
    return not bad


async def _round(wanted: argparse.Namespace, seed: int, roles: ClientRoles) -> Verdict:
    print(f"seed {seed}: {wanted.seconds:g} s", flush=True)
    return await play(
        world_of(wanted),
        seed,
        wanted.seconds,
        frozenset(FaultKind) - (frozenset() if wanted.operator else OPERATED),
        roles,
        free_folder(wanted.out, seed),
        partial(print, flush=True),
        command_of(wanted, seed, roles),
    )


async def _until_signal(wanted: argparse.Namespace) -> bool:
    cancelled_by_signals()
    return await rounds(wanted)


def main() -> int:
    """Returns 0 if all is well, 2 if not, 1 if a round could not be run, and 130 after an interrupt."""
    wanted = arguments()
    try:
        return 0 if asyncio.run(_until_signal(wanted)) else FOUND
    except asyncio.CancelledError:
        return INTERRUPTED
    except (StrandlineError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
