"""Measures how fast the state of stream tasks is restored from changelogs: 1 task, and 16 at the same
time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Final
from uuid import uuid4

from strandline import Admin, LocalCluster, Producer, TopicPartition
from strandline.adapters.system.clock import SystemClock
from strandline.ports import Clock
from strandline.streams.core.changelog import state_key
from strandline.streams.core.task import TaskId
from strandline.streams.restore.restorer import Restorer
from strandline.streams.storage.task_store import TaskStore
from strandline_lab.bench.report import RUNS, heading, median_of, table

LINGER_MS: Final = 5
LOOK_EVERY_S: Final = 0.002


@dataclass(frozen=True, slots=True)
class Case:
    """A changelog to restore. Every record has a key of its own, so all of them end up in the store."""

    name: str
    records: int
    value_bytes: int
    tasks: int


CASES: Final = (
    Case("100 B, 1 task", 1_000_000, 100, 1),
    Case("1 KiB, 1 task", 300_000, 1_024, 1),
    Case("100 B, 16 tasks", 1_000_000, 100, 16),
    Case("1 KiB, 16 tasks", 300_000, 1_024, 16),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """The figures of one run. `late_s`: the loop's delay for other tasks meanwhile, 99th percentile."""

    records_per_s: float
    mb_per_s: float
    late_s: float


async def measure(runs: int = RUNS) -> None:
    """Prints the table."""
    heading("Restore the state of tasks, 3 replicas, 1 process", "stream_restore")
    answers: dict[str, list[Answer]] = {case.name: [] for case in CASES}
    async with LocalCluster(brokers=3) as cluster:
        topics = {case.name: await _filled(cluster.bootstrap, case) for case in CASES}
        for run in range(runs):
            for case in CASES:
                print(f"run {run + 1} of {runs}: {case.name}", file=sys.stderr, flush=True)
                answers[case.name].append(await _restore(cluster.bootstrap, topics[case.name], case))
    table(
        ["", "records/s", "MB/s of keys and values", "others wait for the loop, p99, ms"],
        [
            [
                name,
                median_of([answer.records_per_s for answer in found]),
                median_of([answer.mb_per_s for answer in found]),
                median_of([answer.late_s * 1_000 for answer in found]),
            ]
            for name, found in answers.items()
        ],
    )


def _key(number: int) -> bytes:
    return state_key("counts", b"%012d" % number)


async def _filled(bootstrap: Sequence[str] | str, case: Case) -> str:
    """Creates a changelog topic with all records of a case, a partition for each task."""
    topic = f"changelog-{uuid4().hex[:8]}"
    value = bytes(case.value_bytes)
    async with Admin(bootstrap) as admin, Producer(bootstrap, linger_ms=LINGER_MS) as producer:
        await admin.create_topic(
            topic, partitions=case.tasks, replication_factor=3, config={"cleanup.policy": "compact"}
        )
        for number in range(case.records):
            _ = await producer.send(topic, value, _key(number), partition=number % case.tasks)
        await producer.flush()
    return topic


async def _look(clock: Clock, late: list[float]) -> None:
    """Measures the loop's delay each time, seconds."""
    while True:
        due = clock.monotonic() + LOOK_EVERY_S
        await clock.sleep(LOOK_EVERY_S)
        late.append(clock.monotonic() - due)


async def _restore(bootstrap: Sequence[str] | str, topic: str, case: Case) -> Answer:
    """Restores from empty stores to complete ones, which are then closed."""
    clock = SystemClock()
    with TemporaryDirectory(prefix="stream-restore-") as folder:
        stores = [TaskStore.open(Path(folder) / str(number), topic) for number in range(case.tasks)]
        async with Restorer(bootstrap, settings={}) as restorer, asyncio.TaskGroup() as group:
            late: list[float] = []
            looking = group.create_task(_look(clock, late))
            began = clock.monotonic()
            begun = [
                restorer.begin(TaskId("counts", number), TopicPartition(topic, number), store)
                for number, store in enumerate(stores)
            ]
            restored = [group.create_task(restoration.complete()) for restoration in begun]
            await asyncio.wait(restored)
            seconds = clock.monotonic() - began
            looking.cancel()
        for store in stores:
            store.close()
    assert sum(task.result() for task in restored) == case.records
    size = case.records * (len(_key(0)) + case.value_bytes)
    return Answer(case.records / seconds, size / seconds / 1e6, quantiles(late, n=100)[-1])
