"""Everything that one run does, as a value: it goes to JSON and back, and a part of it can be left out.

A seed draws a plan, and a plan decides its run whole. Faults are a list with times, and each has lots of its
own: a plan without some of them does the others as before. That is how a failing plan is shrunk.
"""

from __future__ import annotations

from random import Random
from typing import Annotated, Final

from pydantic import BaseModel, Field, field_validator

from strandline.config.limits import SIMULATION_SEED_MAX
from strandline_lab.simulation.faults.drawing import (
    FAILOVERS_RATE,
    PARTS_RATE,
    STEPS_RATE,
    drawn_aimed,
    drawn_cuts,
    drawn_disk_losses,
    drawn_faults,
    drawn_isolations,
)
from strandline_lab.simulation.faults.every import (
    AIMED,
    AIMED_AT_CONTROLLERS,
    AIMED_AT_COORDINATORS,
    AIMED_AT_HARDER,
    AIMED_AT_PARTS,
    AIMED_AT_TRANSACTIONS,
    KINDS,
)
from strandline_lab.simulation.faults.fault import Fault
from strandline_lab.simulation.workloads.assigned.group import Assigned
from strandline_lab.simulation.workloads.dividing import Dividing
from strandline_lab.simulation.workloads.every import AnyWorkload, drawn_workloads
from strandline_lab.simulation.workloads.operations import Operations
from strandline_lab.simulation.workloads.transactions.topic import Transactions
from strandline_lab.simulation.workloads.unsteady.cutting import Cutting
from strandline_lab.simulation.workloads.workload import BROKERS_MIN

CONTROLLERS: Final = 2
SECONDS: Final = 30.0
SECONDS_MAX: Final = 24 * 3600
PROCESSES_MAX: Final = 20


class Plan(BaseModel, frozen=True, extra="forbid"):
    """What a run does. `model_dump_json` and `model_validate_json` write and read it."""

    seed: Annotated[int, Field(ge=0, le=SIMULATION_SEED_MAX)]
    """Decides what the plan leaves open: latencies, the order of what is ready, what a client draws."""
    seconds: Annotated[float, Field(gt=0, le=SECONDS_MAX)]
    """How long faults are done, in virtual time; healing comes after them."""
    brokers: Annotated[int, Field(ge=1, le=PROCESSES_MAX)] = BROKERS_MIN
    """How many. Topics have three replicas, so fewer than three brokers are too few."""
    controllers: Annotated[int, Field(ge=1, le=PROCESSES_MAX)] = CONTROLLERS
    """How many. One of them is active."""
    workloads: Annotated[tuple[AnyWorkload, ...], Field(min_length=1)]
    """What the clients do. No two have the same name."""
    faults: tuple[Fault, ...]
    """In the order of their times."""

    @field_validator("workloads")
    @classmethod
    def _names_differ(cls, workloads: tuple[AnyWorkload, ...]) -> tuple[AnyWorkload, ...]:
        names = [each.name for each in workloads]
        if len(set(names)) < len(names):
            raise ValueError(f"two workloads have one name: {', '.join(names)}")
        return workloads

    @field_validator("faults")
    @classmethod
    def _kinds_exist(cls, faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
        for fault in faults:
            if fault.kind not in KINDS:
                raise ValueError(f"there is no fault {fault.kind!r}; known are {', '.join(KINDS)}")
        return faults

    @staticmethod
    def drawn(seed: int, seconds: float = SECONDS) -> Plan:
        """The plan of a seed."""
        workloads = drawn_workloads(seed)
        power = all(workload.survives_power_loss for workload in workloads)
        faults = drawn_faults(Random(f"{seed} faults"), seconds, power=power)
        if any(workload.has_group for workload in workloads):
            faults += drawn_isolations(Random(f"{seed} coordinators"), seconds)
        faults += drawn_disk_losses(Random(f"{seed} disks"), seconds)
        for workload in workloads:
            if isinstance(workload, Cutting):
                back = workload.remembers_epochs
                faults += drawn_cuts(Random(f"{seed} cuts"), seconds, back=back)
        operated = any(isinstance(workload, Operations) for workload in workloads)
        faults += drawn_aimed(seed, seconds, (*AIMED, *AIMED_AT_CONTROLLERS) if operated else AIMED)
        if any(isinstance(workload, Dividing) for workload in workloads):
            faults += drawn_aimed(seed, seconds, AIMED_AT_PARTS, PARTS_RATE)
        for workload in workloads:
            if isinstance(workload, Transactions):
                kinds = AIMED_AT_HARDER if workload.harder else ()
                faults += drawn_aimed(seed, seconds, (*AIMED_AT_TRANSACTIONS, *kinds), STEPS_RATE)
            if isinstance(workload, Assigned):
                faults += drawn_aimed(seed, seconds, AIMED_AT_COORDINATORS, FAILOVERS_RATE)
        in_order = tuple(sorted(faults, key=lambda fault: fault.at_s))
        brokers = max(workload.brokers_min for workload in workloads)
        return Plan(seed=seed, seconds=seconds, brokers=brokers, workloads=workloads, faults=in_order)
