"""FastStream: a subscriber answers each record by one in another topic."""

from __future__ import annotations

import asyncio
import sys
import time
from importlib import metadata

from faststream.kafka import KafkaBroker

from strandline_lab.interop.programs.claims import claim_async, same, version

RECORDS = 100


async def answer(bootstrap: str) -> None:
    """Each record is answered once."""
    name = f"faststream-{time.time_ns()}"
    broker = KafkaBroker(bootstrap.split(","))
    answers: set[str] = set()
    done = asyncio.Event()

    @broker.subscriber(f"{name}-in", group_id=f"{name}-in", auto_offset_reset="earliest")  # type: ignore[untyped-decorator]
    @broker.publisher(f"{name}-out")  # type: ignore[untyped-decorator]
    async def upper(body: str) -> str:
        return body.upper()

    @broker.subscriber(f"{name}-out", group_id=f"{name}-out", auto_offset_reset="earliest")  # type: ignore[untyped-decorator]
    async def collect(body: str) -> None:
        answers.add(body)
        if len(answers) == RECORDS:
            done.set()

    await broker.start()
    try:
        for number in range(RECORDS):
            await broker.publish(f"tide {number}", topic=f"{name}-in")
        await done.wait()
        same(answers, {f"TIDE {number}" for number in range(RECORDS)})
    finally:
        await broker.stop()


def main(bootstrap: str) -> None:
    version(metadata.version("faststream"))
    claim_async("a subscriber answers each record", lambda: answer(bootstrap))


if __name__ == "__main__":
    main(sys.argv[1])
