"""Draws the faults of a seed: which kinds, how often, and for how long.

Each seed draws weights for the kinds of faults, many of them 0: so a combination of faults that would be rare
if all were equally likely is common in some seeds.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final

from strandline_lab.simulation.faults.every import (
    APART,
    COORDINATOR,
    CUT_AND_BACK,
    CUT_LOG,
    KINDS,
    LOST_DISK,
    POWER,
)
from strandline_lab.simulation.faults.fault import Fault

PAUSE_S: Final = (0.1, 3.0)
"""Between two faults, on average: drawn once for a seed, mostly short."""
LASTS_S: Final = (0.05, 10.0)
"""How long a fault lasts: between least and most, mostly short."""
USED_RATES: Final = (0.1, 0.2, 0.5)
"""The part of all kinds of faults that a seed uses: one of these."""
COORDINATOR_RATE: Final = 1 / 4
"""The part of all seeds with a group in which coordinators are isolated, once to COORDINATORS_MAX times."""
COORDINATORS_MAX: Final = 3
LOST_DISK_RATE: Final = 1 / 8
"""The part of all seeds in which brokers get empty disks, once to LOST_DISKS_MAX times."""
LOST_DISKS_MAX: Final = 3
CUTS_MAX: Final = 3
"""How often a log loses its end, at most, in a seed with a topic that allows it."""
CUTS_BEGIN: Final = 0.6
"""The part of the time in which this begins: until a log has lost its end it takes a few seconds."""
BACK_RATE: Final = 1 / 2
AIMED_RATE: Final = 1 / 12
"""The part of all seeds that have a rare sequence, each of them once to AIMED_MAX times."""
AIMED_MAX: Final = 3
PARTS_RATE: Final = 1 / 2
"""As AIMED_RATE, of the seeds in which small writes are divided."""
STEPS_RATE: Final = 2 / 3
"""As AIMED_RATE, of the seeds with transactions."""
FAILOVERS_RATE: Final = 1 / 3
"""As AIMED_RATE, of the seeds with a group whose coordinator assigns."""
LOT_BITS: Final = 32


def drawn_faults(random: Random, seconds: float, *, power: bool) -> tuple[Fault, ...]:
    """The faults of this many seconds. `power`: machines may lose theirs."""
    used = random.choice(USED_RATES)
    left_out = APART if power else APART | POWER
    kinds = [name for name in KINDS if name not in left_out and random.random() < used]
    if not kinds:
        return ()
    weights = [random.random() for _ in kinds]
    least, most = PAUSE_S
    pause_s = least * (most / least) ** random.random()
    faults: list[Fault] = []
    at_s = random.expovariate(1 / pause_s)
    while at_s < seconds:
        [kind] = random.choices(kinds, weights)
        faults.append(_fault(random, kind, at_s))
        at_s += random.expovariate(1 / pause_s)
    return tuple(faults)


def drawn_isolations(random: Random, seconds: float) -> tuple[Fault, ...]:
    """Faults of coordinators, in the order of their times."""
    return _of_one_kind(random, seconds, COORDINATOR, COORDINATOR_RATE, COORDINATORS_MAX)


def drawn_disk_losses(random: Random, seconds: float) -> tuple[Fault, ...]:
    """Losses of disks, in the order of their times."""
    return _of_one_kind(random, seconds, LOST_DISK, LOST_DISK_RATE, LOST_DISKS_MAX)


def drawn_cuts(random: Random, seconds: float, *, back: bool) -> tuple[Fault, ...]:
    """Logs that lose their ends, in the order of their times. `back`: they may be as they were again."""
    kind = CUT_AND_BACK if back and random.random() < BACK_RATE else CUT_LOG
    return _of_one_kind(random, seconds * CUTS_BEGIN, kind, 1.0, CUTS_MAX)


def drawn_aimed(
    seed: int, seconds: float, kinds: Iterable[str], rate: float = AIMED_RATE
) -> tuple[Fault, ...]:
    """Faults of these kinds, each with lots of its own. `rate`: the part of all seeds that have a kind."""
    return tuple(
        fault
        for kind in kinds
        for fault in _of_one_kind(Random(f"{seed} {kind}"), seconds, kind, rate, AIMED_MAX)
    )


def _of_one_kind(random: Random, seconds: float, kind: str, rate: float, most: int) -> tuple[Fault, ...]:
    if random.random() >= rate:
        return ()
    times = sorted(random.uniform(0, seconds) for _ in range(random.randint(1, most)))
    return tuple(_fault(random, kind, at_s) for at_s in times)


def _fault(random: Random, kind: str, at_s: float) -> Fault:
    least, most = LASTS_S
    lasts_s = least + (most - least) * random.random() ** 3
    lot = random.getrandbits(LOT_BITS)
    return Fault(kind=kind, at_s=round(at_s, 3), lasts_s=round(lasts_s, 3), lot=lot)
