"""Every workload there is, and which of them a seed draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Annotated, Final

from pydantic import Field

from strandline.simulation.workloads.cleaning import Cleaning
from strandline.simulation.workloads.groups import Groups
from strandline.simulation.workloads.operations import Operations
from strandline.simulation.workloads.streams import Counting
from strandline.simulation.workloads.writing import Writing

AnyWorkload = Annotated[Writing | Groups | Counting | Operations | Cleaning, Field(discriminator="kind")]

KINDS: Final[Mapping[str, Callable[[Random, str], AnyWorkload]]] = {
    "writing": Writing.drawn,
    "groups": Groups.drawn,
    "counting": Counting.drawn,
    "operations": Operations.drawn,
    "cleaning": Cleaning.drawn,
}
WORKLOADS_MAX: Final = 2


def drawn_workloads(random: Random) -> tuple[AnyWorkload, ...]:
    """The workloads of a seed."""
    kinds = random.sample(list(KINDS), random.randint(1, min(WORKLOADS_MAX, len(KINDS))))
    return tuple(KINDS[kind](random, kind) for kind in kinds)
