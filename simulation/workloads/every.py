"""Every workload there is, and which of them a seed draws."""

from __future__ import annotations

from random import Random

from strandline.simulation.workloads.writing import Writing

AnyWorkload = Writing


def drawn_workloads(random: Random) -> tuple[AnyWorkload, ...]:
    """The workloads of a seed."""
    return (Writing.drawn(random, "writing"),)
