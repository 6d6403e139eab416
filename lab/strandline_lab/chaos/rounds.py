"""From a seed to an outcome: draws a plan, makes a cluster for it, and runs the round."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random

from strandline_lab.chaos.core.faults import FaultKind
from strandline_lab.chaos.core.load import TOPICS, ClientRoles
from strandline_lab.chaos.core.plan import Plan, Setting, draw
from strandline_lab.chaos.round import Outcome, run_round
from strandline_lab.chaos.timeline import ShowLine
from strandline_lab.chaos.world import World, WorldFailed

OpenWorld = Callable[[Path], AbstractAsyncContextManager[World]]
"""Makes a cluster. Its files, if it has any on this machine, are in the given folder."""


def plan_for(
    world: World, seed: int, seconds: float, kinds: Collection[FaultKind], clients: ClientRoles
) -> Plan:
    """The plan of a seed. The same seed, time, kinds, members and clients give the same plan.

    Raises WorldFailed if the cluster supports none of the kinds.
    """
    can = [kind for kind in FaultKind if kind in world.can and kind in kinds]
    if not can:
        asked, possible = (", ".join(sorted(each)) or "none" for each in (kinds, world.can))
        raise WorldFailed(f"none of these faults can be done here: {asked}; there are {possible}")
    members = [*world.members, *clients.members]
    setting = Setting(seconds, members, TOPICS, len(clients.groups), can)
    return draw(Random(seed).random, seed, setting)


async def play(
    open_world: OpenWorld,
    seed: int,
    seconds: float,
    kinds: Collection[FaultKind],
    clients: ClientRoles,
    out: Path,
    show: ShowLine,
    command: str,
) -> Outcome:
    """Runs one round on a cluster of its own, in `out`. Keeps the cluster's files there only if a problem was
    found.

    `command` is the command that repeats the round, for its report.

    Raises WorldFailed, StrandlineError if it could not be run.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise WorldFailed(f"{out} is not empty: each round needs a folder of its own")
    except OSError as error:
        raise WorldFailed(f"{out} cannot be made ({error.strerror}): give another --out") from None
    (out / "command.txt").write_text(f"{command}\n")
    cluster = out / "cluster"
    async with open_world(cluster) as world:
        outcome = await run_round(world, plan_for(world, seed, seconds, kinds, clients), out, show, clients)
    if outcome.ok:
        shutil.rmtree(cluster, ignore_errors=True)
    return outcome


def free_folder(out: Path, seed: int) -> Path:
    """A folder for a round that does not exist yet: one seed may be run several times."""
    folder, again = out / f"seed-{seed}", 1
    while folder.exists():
        again += 1
        folder = out / f"seed-{seed}-{again}"
    return folder
