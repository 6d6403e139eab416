"""A balance as an operator makes it: of 1,000 topics on a real cluster of three brokers, and one more.

It measures the plan from the call to its answer, with the sizes that leaders tell, what a look at the
progress costs the controller, and the moves. All topics are empty, so their copies are short.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from strandline import Admin, LocalCluster, NewTopic
from strandline.controller.core.balance.planning import fewest_copies
from strandline.errors import OutcomeUnknown
from strandline.ids import BrokerId
from strandline.vocabulary.admin import BalancePlan
from strandline.vocabulary.metadata import BalanceState
from strandline_lab.bench.report import cpu_s, heading, medians

BROKERS: Final = 3
TOPICS: Final = 1_000
PARTITIONS: Final = 3
PLANS: Final = 3
LOOKS: Final = 20
QUIET_S: Final = 10.0
"""Until what the creation of topics has left to do is done."""
LOOK_AGAIN_S: Final = 1.0
RUNS: Final = 1

FIGURES: Final = {
    "plan_s": "plan, from the call to its answer, s",
    "copies": "copies",
    "of_fewest": "copies / the fewest possible",
    "look_s": "a look at the progress, from the call to its answer, s",
    "look_cpu_ms": "a look at the progress, processor time of the controller, ms",
    "moves_s": "all moves, s",
    "made_of_fewest": "copies that were made / the fewest possible",
}


async def measure(runs: int = RUNS) -> None:
    """Prints the table."""
    title = f"A balance of {BROKERS} brokers × {TOPICS:,} topics × {PARTITIONS} partitions, one broker more"
    heading(title, "balance_moves")
    await medians(runs, one_run, FIGURES)


async def one_run() -> Mapping[str, float]:
    """The figures of one cluster."""
    async with (
        LocalCluster(brokers=BROKERS) as cluster,
        Admin(cluster.bootstrap, request_timeout_ms=120_000) as admin,
    ):
        await admin.create_topics([NewTopic(f"t-{number}", PARTITIONS, BROKERS) for number in range(TOPICS)])
        await cluster.grow(BROKERS + 1)
        await asyncio.sleep(QUIET_S)
        before = await _replicas(admin)
        planned = [await _planned(admin) for _ in range(PLANS)]
        plan = planned[-1][1]
        looks = await _looks(admin, _controller(cluster))
        began = time.perf_counter()
        await admin.start_balance()
        await _ended(admin)
        moves_s = time.perf_counter() - began
        after = await _replicas(admin)
        made = sum(len(after[name] - before[name]) for name in before)
        fewest = _fewest(plan)
        return {
            "plan_s": statistics.median(seconds for seconds, _ in planned),
            "copies": plan.copies,
            "of_fewest": plan.copies / fewest,
            **looks,
            "moves_s": moves_s,
            "made_of_fewest": made / fewest,
        }


async def _planned(admin: Admin) -> tuple[float, BalancePlan]:
    """The seconds until the answer, and the plan."""
    began = time.perf_counter()
    plan = await admin.plan_balance()
    return time.perf_counter() - began, plan


async def _ended(admin: Admin) -> None:
    state = BalanceState.RUNNING
    while state is BalanceState.RUNNING:
        await asyncio.sleep(LOOK_AGAIN_S)
        with suppress(OutcomeUnknown):  # a look that took too long
            state = (await admin.describe_balance()).state


async def _looks(admin: Admin, controller: int) -> Mapping[str, float]:
    """`controller`: the pid of the only one."""
    used, began = cpu_s(controller), time.perf_counter()
    for _ in range(LOOKS):
        await admin.describe_balance()
    return {
        "look_s": (time.perf_counter() - began) / LOOKS,
        "look_cpu_ms": 1_000 * (cpu_s(controller) - used) / LOOKS,
    }


def _controller(cluster: LocalCluster) -> int:
    (pid,) = (member.pid for member in cluster.members() if member.kind == "controller")
    assert pid is not None
    return pid


def _fewest(plan: BalancePlan) -> int:
    return fewest_copies({BrokerId(load.broker): load.replicas_before for load in plan.loads})


async def _replicas(admin: Admin) -> Mapping[tuple[str, int], set[int]]:
    return {
        (topic.name, number): set(partition.replicas)
        for topic in (await admin.metadata()).topics
        for number, partition in enumerate(topic.partitions)
    }
