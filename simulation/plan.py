"""Everything that one run does, as a value: it goes to JSON and back, and a part of it can be left out.

A seed draws a plan, and a plan decides its run whole. Faults are a list with times, and each has lots of its
own: a plan without some of them does the others as before. That is how a failing plan is shrunk.
"""

from __future__ import annotations

from random import Random
from typing import Annotated, Final

from pydantic import BaseModel, Field

from strandline.simulation.faults.drawing import drawn_faults
from strandline.simulation.faults.fault import Fault
from strandline.simulation.workloads.every import AnyWorkload, drawn_workloads

BROKERS: Final = 3
CONTROLLERS: Final = 2
SECONDS: Final = 30.0


class Plan(BaseModel, frozen=True, extra="forbid"):
    """What a run does. `model_dump_json` and `model_validate_json` write and read it."""

    seed: int
    """Decides what the plan leaves open: latencies, the order of what is ready, what a client draws."""
    seconds: Annotated[float, Field(gt=0)]
    """How long faults are done, in virtual time; healing comes after them."""
    brokers: Annotated[int, Field(ge=1)] = BROKERS
    controllers: Annotated[int, Field(ge=1)] = CONTROLLERS
    workloads: tuple[AnyWorkload, ...]
    faults: tuple[Fault, ...]
    """In the order of their times."""

    @staticmethod
    def drawn(seed: int, seconds: float = SECONDS) -> Plan:
        """The plan of a seed."""
        workloads = drawn_workloads(Random(f"{seed} workloads"))
        power = all(workload.survives_power_loss for workload in workloads)
        faults = drawn_faults(Random(f"{seed} faults"), seconds, power=power)
        return Plan(seed=seed, seconds=seconds, workloads=workloads, faults=faults)
