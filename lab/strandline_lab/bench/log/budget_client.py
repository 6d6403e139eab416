"""The client of the measurement `budget`, in a process of its own.

`python -m strandline_lab.bench.log.budget_client BOOTSTRAP TOPIC WORK COUNT` warms up and prints a line.
For each line that it reads it does the work and prints a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import uvloop

from strandline import Producer
from strandline.records import encode_values
from strandline_lab.perf import measure
from strandline_lab.perf.malloc import keep_freed_memory

WARM_UP: Final = 0.1
"""The part of the work that is done once beforehand."""
PARTITION: Final = 0


@dataclass(frozen=True, slots=True)
class Work:
    """Batches of `size` bytes with `records` records, `in_flight` at a time. `in_flight` 0: record by record
    through `send`, as many as the producer's buffer takes."""

    size: int
    records: int
    in_flight: int


WORKS: Final = {
    "large": Work(64 * 1024, 1, 10),
    "one": Work(100, 1, 1),
    "small": Work(1024, 1, 32),
    "send": Work(100, 1, 0),
}


async def do(producer: Producer, topic: str, work: Work, count: int) -> dict[str, Any]:
    """Does it, and returns what `strandline-lab perf` would."""
    load = measure.Load(topic, 1, count, work.size, work.in_flight, work.size)
    if work.in_flight == 0:
        return await measure.produce(producer, "send", load, _ignored)
    if work.in_flight == 1:
        return await measure.commit_latency(producer, load, _ignored)
    batch = encode_values([bytes(work.size)] * work.records, 0)
    calls = ((1, lambda: producer.send_batch(topic, PARTITION, batch)) for _ in range(count))
    return measure.spread(await measure.windowed(calls, work.in_flight, _ignored))


def _ignored(_records: int) -> None:
    pass


async def main(bootstrap: str, topic: str, work: str, count: int, next_line: Callable[[], str]) -> None:
    async with Producer(bootstrap) as producer:
        await do(producer, topic, WORKS[work], max(1, int(count * WARM_UP)))
        print("ready", flush=True)
        while await asyncio.to_thread(next_line):
            print(json.dumps(await do(producer, topic, WORKS[work], count)), flush=True)


if __name__ == "__main__":
    keep_freed_memory()
    uvloop.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.stdin.readline))
