"""Prints what a client does, a line for each claim: `passed NAME`, or `failed NAME: reason`."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

COPIED: Final = "records are written and read over the death of a leader"
HALF: Final = 150


def version(text: str) -> None:
    """The client's version."""
    print(f"version {text}", flush=True)


def claim(name: str, work: Callable[[], object]) -> None:
    """Runs the work. The claim holds if it raises nothing."""
    try:
        work()
    except Exception as error:
        traceback.print_exc()
        print(f"failed {name}: {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)
    else:
        print(f"passed {name}", flush=True)


def claim_async(name: str, work: Callable[[], Awaitable[object]], seconds: float = 60) -> None:
    """The same for a coroutine function; it has this time."""

    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await work()

    claim(name, lambda: asyncio.run(bounded()))


def same(found: object, expected: object) -> None:
    """Raises AssertionError with both if they differ."""
    if found != expected:
        raise AssertionError(f"{found!r} is not {expected!r}")


def halves(topic: str) -> Iterator[range]:
    """The numbers of the records to write and read, twice; between, the leader of partition 0 is killed."""
    yield range(HALF)
    print(f"kill the leader of {topic}", flush=True)
    sys.stdin.readline()
    yield range(HALF, 2 * HALF)


def read_back(partition: int, key: bytes, header: tuple[str, bytes], value: bytes) -> None:
    """Prints a record that was read, for the runner to compare."""
    print(f"read {partition} {key.decode()} {header[0]}={header[1].decode()} {value.decode()}", flush=True)
