"""Runs a plan: workloads under faults, then healing, then the judgement of what was seen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import structlog

from strandline.errors import StrandlineError
from strandline.simulation.cluster import Cluster
from strandline.simulation.engine.world import World
from strandline_lab.simulation.faults.fault import Done
from strandline_lab.simulation.faults.nemesis import Nemesis
from strandline_lab.simulation.judging.every import new_judges
from strandline_lab.simulation.judging.judge import Judge, Problem
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.settling import until_settled
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads.workload import Workload

PREPARED_S_MAX: Final = 60.0
"""Until every topic exists."""
HEALED_S_MAX: Final = 120.0
"""After all faults have ended: until every client has finished and everything can be read."""
HOUSEKEEPING: Final = {"retention_check_ms": 500, "compaction_check_ms": 500}
"""Settings of the brokers: runs are short, so old records are looked for often."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run showed."""

    plan: Plan
    trace: str
    """The hash of its trace."""
    virtual_s: float
    steps: tuple[str, ...]
    """What the faults did, with the times in seconds."""
    done: tuple[Done, ...]
    """The faults that began, in the order in which they did."""
    healed_s: float | None
    """When all faults had ended; None if the run did not come to it."""
    counts: dict[str, int]
    """How much the workloads did, by a short name such as `records`."""
    problems: tuple[Problem, ...]
    """Empty if all is well."""


def run(plan: Plan, watch: Callable[[Stage], object] | None = None) -> Outcome:
    """Run a plan. The same plan has the same outcome on every machine with the same versions of
    strandline, Python and the packages it uses.

    `watch` gets the stage before anything runs. It may look at the run, and must not change it.
    """
    merged_max = min(each.operations_merged_max for each in plan.workloads)
    with World(plan.seed, operations_merged_max=merged_max) as world:
        running = _Run(plan, world)
        if watch is not None:
            watch(running.stage)
        return running.outcome()


def run_quietly(plan: Plan, watch: Callable[[Stage], object] | None = None) -> Outcome:
    """`run` without the logs of the services: faults fill them."""
    with _without_logs():
        return run(plan, watch)


@contextmanager
def _without_logs() -> Iterator[None]:
    level = logging.root.manager.disable
    configuration = structlog.get_config() if structlog.is_configured() else None
    logging.disable(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        logging.disable(level)
        if configuration is None:
            structlog.reset_defaults()
        else:
            structlog.configure(**configuration)


class _NotHealed(Exception):
    """HEALED_S_MAX is over."""


class _Run:
    def __init__(self, plan: Plan, world: World) -> None:
        self._plan = plan
        self._world = world
        settings: dict[str, Any] = {**HOUSEKEEPING}
        for_controllers: dict[str, Any] = {}
        for each in plan.workloads:
            settings |= each.broker_settings
            for_controllers |= each.controller_settings
        cluster = Cluster(
            world,
            brokers=plan.brokers,
            controllers=plan.controllers,
            broker_settings=settings,
            controller_settings=for_controllers,
        )
        self.stage = Stage(cluster)
        self.stage.note_exceptions()
        self._nemesis = Nemesis(self.stage, plan.faults)
        self._workloads: list[Workload] = [each.workload(self.stage) for each in plan.workloads]
        self._judges: list[Judge] = new_judges(self.stage)

    def outcome(self) -> Outcome:
        problems: list[Problem] = []
        try:
            self._world.run(self._whole())
        except (TimeoutError, AssertionError, StrandlineError) as error:
            problems.append(Problem("healing", f"it did not heal: {error!r}"))
        except BaseExceptionGroup as group:
            late, failed = group.split(_NotHealed)
            if late is not None:
                problems.append(
                    Problem("healing", f"not healed after {HEALED_S_MAX:g} s: {self.stage.awaited}")
                )
            if failed is not None:
                problems.append(Problem("client", f"a client failed: {failed.exceptions!r}"))
        else:
            for workload in self._workloads:
                problems += workload.problems()
        for judge in self._judges:
            problems += judge.problems()
        problems += [Problem("defect", line) for line in self._world.defects]
        problems += [Problem("stop", line) for line in self._nemesis.hung]
        counts: dict[str, int] = {}
        for workload in self._workloads:
            for name, count in workload.counts().items():
                counts[name] = counts.get(name, 0) + count
        return Outcome(
            self._plan,
            self._world.trace.digest(),
            self.stage.now_s,
            self._nemesis.steps,
            self._nemesis.done,
            self._nemesis.healed_s,
            counts,
            tuple(problems),
        )

    async def _whole(self) -> None:
        async with asyncio.timeout(PREPARED_S_MAX), asyncio.TaskGroup() as preparing:
            for workload in self._workloads:
                preparing.create_task(workload.prepare())
        for judge in self._judges:
            judge.start()
        async with asyncio.TaskGroup() as running:
            for workload in self._workloads:
                running.create_task(workload.run())
            for workload in self._workloads:
                await workload.begun()
            await self._nemesis.run(self._plan.seconds)
            self.stage.faults_ended.set()
            healing = asyncio.timeout(HEALED_S_MAX)
            try:
                async with healing:
                    await self._finish()
            except TimeoutError:
                if healing.expired():
                    raise _NotHealed from None
                raise

    async def _finish(self) -> None:
        await until_settled(self.stage)
        for plan, workload in zip(self._plan.workloads, self._workloads, strict=True):
            self.stage.awaited = f"the clients of {plan.name} have not finished"
            await workload.finish()
        for judge in self._judges:
            self.stage.awaited = f"{type(judge).__name__} has not finished looking"
            await judge.finish()
