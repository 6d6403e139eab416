"""Proposes smaller plans of a plan that fails, and keeps those that still fail. Pure.

A proposal leaves out whole workloads, time, faults, or makes a number of a workload smaller. What a plan
leaves in does what it did before, but later than what was left out it may happen in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from strandline_lab.simulation.plan import Plan

T = TypeVar("T")

Search = Generator[Plan, bool, Plan]
"""Yields a proposal, is sent whether it fails as the plan did, and returns the smallest plan that does."""

SECONDS_MIN: Final = 1.0
SECONDS_DIGITS: Final = 3


def smaller_plans(plan: Plan) -> Search:
    """Search until nothing more can be left out."""
    while True:
        before = plan
        for search in (_fewer_workloads, _shorter, _fewer_faults, _smaller_workloads, _fewer_controllers):
            plan = yield from search(plan)
        if plan == before:
            return plan


def _fewer_workloads(plan: Plan) -> Search:
    def with_workloads(kept: Sequence[Any]) -> Plan:
        return plan.model_copy(update={"workloads": tuple(kept)})

    kept = yield from _fewer(plan.workloads, with_workloads, least=1)
    return with_workloads(kept)


def _fewer_faults(plan: Plan) -> Search:
    def with_faults(kept: Sequence[Any]) -> Plan:
        return plan.model_copy(update={"faults": tuple(kept)})

    kept = yield from _fewer(plan.faults, with_faults, least=0)
    return with_faults(kept)


def _fewer(
    items: Sequence[T], with_items: Callable[[Sequence[T]], Plan], *, least: int
) -> Generator[Plan, bool, Sequence[T]]:
    """Leave out all but `least`, then halves, quarters, and so on, down to single items."""
    size = len(items) - least
    while size > 0:
        start = len(items)
        while start > 0:  # from the end: what comes before is played as it was
            start = max(0, start - size)
            kept = [*items[:start], *items[start + size :]]
            if len(items) > len(kept) >= least and (yield with_items(kept)):
                items = kept
        size //= 2
    return items


def _shorter(plan: Plan) -> Search:
    """Halve the time as often as possible, then try three quarters of it, and end after the last fault."""
    for share in (1 / 2, 3 / 4):
        while plan.seconds * share >= SECONDS_MIN:
            proposal = _until(plan, round(plan.seconds * share, SECONDS_DIGITS))
            if not (yield proposal):
                break
            plan = proposal
    last_s = max((fault.at_s for fault in plan.faults), default=0.0)
    proposal = _until(plan, max(SECONDS_MIN, round(last_s + 1, SECONDS_DIGITS)))
    if proposal.seconds < plan.seconds and (yield proposal):
        plan = proposal
    return plan


def _until(plan: Plan, seconds: float) -> Plan:
    faults = tuple(fault for fault in plan.faults if fault.at_s < seconds)
    return plan.model_copy(update={"seconds": seconds, "faults": faults})


def _smaller_workloads(plan: Plan) -> Search:
    """Bring each whole number of each workload towards 1, and shorten each of its lists."""
    for place in range(len(plan.workloads)):
        for name in type(plan.workloads[place]).model_fields:
            for proposal in _with_less(plan, place, name):
                if (yield proposal):
                    plan = proposal
                    break
    return plan


def _with_less(plan: Plan, place: int, name: str) -> Iterator[Plan]:
    """The plan with less of one field of a workload, the least first."""
    workload = plan.workloads[place]
    value: object = getattr(workload, name)
    for less in _less(value):
        try:
            changed = type(workload).model_validate({**workload.model_dump(), name: less})
        except ValidationError:
            continue  # the workload needs more
        workloads = (*plan.workloads[:place], changed, *plan.workloads[place + 1 :])
        yield plan.model_copy(update={"workloads": workloads})


def _less(value: object) -> list[object]:
    """Smaller values, the smallest first. None for anything but numbers and lists."""
    match value:
        case bool():
            return []
        case int() if value > 1:
            return [*dict.fromkeys((1, value // 2, value - 1))]
        case tuple() if value:
            halves = (value[: len(value) // 2], value[len(value) // 2 :], value[:-1])
            return [*dict.fromkeys(half for half in halves if len(half) < len(value))]
        case _:
            return []


def _fewer_controllers(plan: Plan) -> Search:
    proposal = plan.model_copy(update={"controllers": 1})
    if plan.controllers > 1 and (yield proposal):
        return proposal
    return plan
