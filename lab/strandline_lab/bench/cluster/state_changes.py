"""Measures the time of a state-change request from its queueing until its completion."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Final

from strandline import Admin, LocalCluster, NewTopic
from strandline.vocabulary.state_changes import Command, RequestState
from strandline_lab.bench.report import RUNS, heading, medians

ONE_BY_ONE: Final = 30
TOPICS: Final = 1_000
PARTITIONS: Final = 3

FIGURES: Final = {
    "one_p50_ms": "one start-replica, requested → completed, p50 ms",
    "one_p99_ms": "the same, p99 ms",
    "many": "start-replica requests at once",
    "many_p50_ms": "each of them, requested → completed, p50 ms",
    "many_p99_ms": "the same, p99 ms",
    "many_all_ms": "first requested → last completed, ms",
}


async def measure(runs: int = RUNS) -> None:
    """Prints the table."""
    heading("State-change requests: three brokers, the controller asks", "state_changes")
    await medians(runs, one_run, FIGURES)


async def one_run() -> Mapping[str, float]:
    """One topic after the other, and then a thousand at once."""
    async with (
        LocalCluster(brokers=3) as cluster,
        Admin(cluster.bootstrap, request_timeout_ms=120_000) as admin,
    ):
        for number in range(ONE_BY_ONE):
            await admin.create_topic(f"one-{number}", partitions=1, replication_factor=1)
        one = await _took_ms(admin, "one-", ONE_BY_ONE)
        await admin.create_topics([NewTopic(f"many-{number}", PARTITIONS, 1) for number in range(TOPICS)])
        many = await _took_ms(admin, "many-", TOPICS * PARTITIONS)
    begun = min(requested for requested, _ in many)
    ended = max(completed for _, completed in many)
    return {
        **_percentiles("one", one),
        "many": len(many),
        **_percentiles("many", many),
        "many_all_ms": ended - begun,
    }


async def _took_ms(admin: Admin, prefix: str, count: int) -> list[tuple[int, int]]:
    """The times at which each of the controller's start-replica requests was made and completed, ms since
    1970."""
    requested: dict[str, int] = {}
    took: list[tuple[int, int]] = []
    async for event in admin.state_changes(follow=True):
        if event.command is not Command.START_REPLICA or not event.topic.startswith(prefix):
            continue
        if event.requester != -1:
            continue
        if event.state is RequestState.REQUESTED:
            requested[event.id] = event.at_ms
        elif event.state is RequestState.COMPLETED:
            took.append((requested[event.id], event.at_ms))
            if len(took) == count:
                break
    return took


def _percentiles(name: str, took: list[tuple[int, int]]) -> Mapping[str, float]:
    each = sorted(completed - requested for requested, completed in took)
    return {f"{name}_p50_ms": statistics.median(each), f"{name}_p99_ms": each[int(len(each) * 0.99) - 1]}
