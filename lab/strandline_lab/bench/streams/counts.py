"""Measures how many records a second one process of a stream application counts.

Its state is in RocksDB, and each commit is a batch of a changelog with three replicas. If BENCH_BYTEWAX names
a Python that has Bytewax, Bytewax counts the same records from its own memory into its own memory, with or
without recovery snapshots on the local disk. So it neither reads a log nor replicates its state.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from uuid import uuid4

import uvloop

from strandline import Admin, LocalCluster, Producer
from strandline.adapters.system.clock import SystemClock
from strandline.errors import RequestTimedOut
from strandline.streams import BYTES, Record, Streams, Topology
from strandline_lab.bench.report import RUNS, heading, median_of, table

RECORDS: Final = 1_000_000
KEYS: Final = 10_000
VALUE_BYTES: Final = 100
PARTITIONS: Final = 4
STEP_RECORDS: Final = 50_000
LOOK_EVERY_S: Final = 0.02
COUNTED_S_MAX: Final = 300.0
BYTEWAX: Final = Path(__file__).with_name("counts_bytewax.py")

CASES: Final = {
    "count": "count by key",
    "repartitioned": "the same after a repartition topic",
    "stateless": "filter, no state",
}


def topology(case: str, lines: str, out: str) -> Topology:
    """One of CASES, over the topic `lines`."""
    topology = Topology()
    source = topology.source(lines)
    if case == "count":
        _ = source.count("counts")
    elif case == "repartitioned":
        _ = source.repartition("again", key=BYTES, value=BYTES).count("counts")
    else:
        source.filter(_never).to(out, key=BYTES, value=BYTES)
    return topology


def _never(record: Record[bytes, bytes]) -> bool:
    return record.value is None


async def measure(runs: int = RUNS) -> None:
    """Prints the table."""
    heading(
        f"{RECORDS:,} records of {VALUE_BYTES} B with {KEYS:,} keys, counted by 1 process", "stream_counts"
    )
    rates: dict[str, list[float]] = {}
    async with LocalCluster(brokers=3) as cluster:
        lines = await _filled(cluster.bootstrap)
        for run in range(runs):
            for case, name in CASES.items():
                print(f"run {run + 1} of {runs}: {name}", file=sys.stderr, flush=True)
                rates.setdefault(name, []).append(await _counted(cluster.bootstrap, case, lines))
            for name, rate in (await _bytewax()).items():
                rates.setdefault(name, []).append(rate)
    table(["", "records/s"], [[name, median_of(found)] for name, found in rates.items()])
    if not os.environ.get("BENCH_BYTEWAX"):
        print("\nBytewax was not measured: BENCH_BYTEWAX names no Python that has it.")


async def _filled(bootstrap: str) -> str:
    """Creates a topic with all records."""
    topic = f"lines-{uuid4().hex[:8]}"
    async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        await admin.create_topic(topic, PARTITIONS, replication_factor=3)
        for start in range(0, RECORDS, STEP_RECORDS):
            numbers = range(start, start + STEP_RECORDS)
            keys = [b"key-%d" % (number * 7_919 % KEYS) for number in numbers]
            sent = await producer.send_many(topic, [b"x" * VALUE_BYTES] * STEP_RECORDS, keys=keys)
            _ = await sent
    return topic


async def _counted(bootstrap: str, case: str, lines: str) -> float:
    """Records a second, from the first one processed until all of them are committed."""
    application, out = f"{case}-{uuid4().hex[:8]}", f"out-{uuid4().hex[:8]}"
    async with Admin(bootstrap) as admin:
        await admin.create_topic(out, PARTITIONS, replication_factor=3)
        with TemporaryDirectory(prefix="stream-counts-") as folder:
            process = await asyncio.create_subprocess_exec(
                *(
                    sys.executable,
                    "-m",
                    "strandline_lab.bench.streams.counts",
                    bootstrap,
                    application,
                    case,
                    lines,
                    out,
                    folder,
                ),
                stdin=asyncio.subprocess.PIPE,
            )
            try:
                topics = [lines] if case != "repartitioned" else [lines, f"{application}-again-repartition"]
                return RECORDS / await _took_s(admin, application, topics)
            finally:
                assert process.stdin is not None
                process.stdin.close()
                _ = await process.wait()


async def _took_s(admin: Admin, application: str, topics: Sequence[str]) -> float:
    """Time from the first committed offset until all are committed. Raises RequestTimedOut."""
    clock = SystemClock()
    deadline = clock.monotonic() + COUNTED_S_MAX
    began, at_first = 0.0, 0
    counted = dict.fromkeys(topics, 0)
    while clock.monotonic() < deadline:
        offsets = await admin.group_offsets(application)
        for topic in topics:
            counted[topic] = sum(at.offset for name, at in offsets.items() if name.topic == topic)
        if not began and counted[topics[0]]:
            began, at_first = clock.monotonic(), counted[topics[0]]
        if all(count == RECORDS for count in counted.values()):
            return (clock.monotonic() - began) * RECORDS / (RECORDS - at_first)
        await clock.sleep(LOOK_EVERY_S)
    raise RequestTimedOut(f"{application} has not counted everything within {COUNTED_S_MAX:.0f} s: {counted}")


async def _bytewax() -> dict[str, float]:
    """Records a second of Bytewax, by the name of the row; empty without Bytewax."""
    python = os.environ.get("BENCH_BYTEWAX")
    if not python:
        return {}
    with TemporaryDirectory(prefix="bytewax-") as folder:
        arguments = [str(RECORDS), str(KEYS), str(VALUE_BYTES), folder]
        process = await asyncio.create_subprocess_exec(
            python, str(BYTEWAX), *arguments, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{BYTEWAX} ended with {process.returncode}")
    rates: dict[str, float] = json.loads(out)
    return rates


async def member(bootstrap: str, application: str, case: str, lines: str, out: str, folder: str) -> None:
    """Runs the application until its standard input ends."""
    app = Streams(topology(case, lines, out), bootstrap, application_id=application, state_dir=folder)
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with app:
        _ = await reader.read()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        uvloop.run(member(*sys.argv[1:]))
    else:
        asyncio.run(measure())
