"""Measures how long a task pauses when it moves with a large state: with a learner, and without one.

A record goes in every few milliseconds, and comes out again. The figure is the longest time without output
while the task moved to a member that had none of its state.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from uuid import uuid4

import uvloop

from strandline import Admin, Consumer, LocalCluster, Producer, TopicPartition
from strandline.adapters.system.clock import SystemClock
from strandline.errors import GroupIdNotFound
from strandline.streams import BYTES, KeyValueStore, Record, Store, Streams, Topology
from strandline_lab.bench.report import RUNS, heading, median_of, table

SIZES_MB: Final = (10, 100)
STATE_BYTES: Final = 1_000
EVERY_S: Final = 0.005
QUIET_S: Final = 2.0
LOOK_EVERY_S: Final = 0.02
MOVED_S_MAX: Final = 120.0
STEP_RECORDS: Final = 20_000

LEAVES: Final = signal.SIGTERM
STOPS: Final = signal.SIGINT
MOVES: Final = {"with a learner": LEAVES, "without": STOPS}

MEMBER: Final = "member"
"""The first argument that makes the process a member."""


def topology(lines: str, out: str) -> Topology:
    """Keeps a large value for each key, and passes each record on."""

    def keep(
        record: Record[bytes, bytes], store: KeyValueStore[bytes, bytes]
    ) -> Iterable[Record[bytes, bytes]]:
        assert record.key is not None
        store.put(record.key, bytes(STATE_BYTES))
        yield record

    topology = Topology()
    kept = topology.source(lines).process(keep, store=Store("large", BYTES, BYTES))
    kept.to(out, key=BYTES, value=BYTES)
    return topology


@dataclass(frozen=True, slots=True)
class Move:
    """Seconds: the longest time without output before the move and during it, and the duration of the
    move."""

    before_s: float
    pause_s: float
    took_s: float


async def measure(runs: int = RUNS, sizes_mb: Sequence[int] = SIZES_MB) -> None:
    """Prints the table."""
    heading(f"A task moves with its state, a record every {EVERY_S * 1000:.0f} ms", "stream_moves")
    seen: dict[str, list[Move]] = {}
    async with LocalCluster(brokers=3) as cluster:
        for run in range(runs):
            for size in sizes_mb:
                print(f"run {run + 1} of {runs}: {size} MB", file=sys.stderr, flush=True)
                async with moving(cluster.bootstrap, size) as moves:
                    for name, number in MOVES.items():
                        seen.setdefault(f"{size} MB, {name}", []).append(await moves.move(number))
    table(
        ["", "no output for, ms", "the same without a move, ms", "until it was over, s"],
        [
            [
                name,
                median_of([move.pause_s * 1000 for move in found]),
                median_of([move.before_s * 1000 for move in found]),
                median_of([move.took_s for move in found]),
            ]
            for name, found in seen.items()
        ],
    )


class Gaps:
    """Reads the output, and measures the longest time without any since `forget`."""

    def __init__(self, consumer: Consumer) -> None:
        self.longest_s = 0.0
        self.seen: set[bytes | None] = set()
        self._consumer = consumer
        self._clock = SystemClock()
        self._last = self._clock.monotonic()

    def forget(self) -> None:
        self.longest_s = 0.0

    async def run(self) -> None:
        """Reads until it is cancelled."""
        while True:
            for batch in await self._consumer.getbatches(timeout_ms=1_000):
                now = self._clock.monotonic()
                self.longest_s, self._last = max(self.longest_s, now - self._last), now
                self.seen.update(batch.columns().keys)


class Moves:
    """Moves one task with its state between members; each move is to a new member."""

    def __init__(self, bootstrap: str, folder: Path, producer: Producer, admin: Admin, gaps: Gaps) -> None:
        self.gaps = gaps
        self.application = f"moves-{uuid4().hex[:8]}"
        self.lines, self.out = f"{self.application}-lines", f"{self.application}-out"
        self._bootstrap = bootstrap
        self._folder = folder
        self._producer = producer
        self._admin = admin
        self._clock = SystemClock()
        self._members: list[Process] = []

    async def begin(self, size_mb: int) -> None:
        """Starts a member with a state of this size."""
        await self._start()
        total = size_mb * 1_000_000 // STATE_BYTES
        for start in range(0, total, STEP_RECORDS):
            keys = [b"key-%d" % number for number in range(start, min(start + STEP_RECORDS, total))]
            _ = await (await self._producer.send_many(self.lines, [b"x"] * len(keys), keys=keys))
        await self._came_out(b"key-%d" % (total - 1))

    async def feed(self) -> None:
        """Sends a record at each tick, until it is cancelled."""
        while True:
            _ = await self._producer.send(self.lines, b"x", b"key-0")
            await self._clock.sleep(EVERY_S)

    async def move(self, number: signal.Signals) -> Move:
        """Ends the member with this signal, once another one has joined."""
        await self._start()
        self.gaps.forget()
        await self._clock.sleep(QUIET_S)
        before_s = self.gaps.longest_s
        self.gaps.forget()
        began = self._clock.monotonic()
        leaving = self._members.pop(0)
        leaving.send_signal(number)
        _ = await leaving.wait()
        last = uuid4().hex.encode()
        _ = await self._producer.send_and_wait(self.lines, b"x", last)
        await self._came_out(last)
        return Move(before_s, self.gaps.longest_s, self._clock.monotonic() - began)

    async def end(self) -> None:
        """Kills all members."""
        for member in self._members:
            member.kill()
            _ = await member.wait()

    async def _start(self) -> None:
        """Starts one more member with an empty folder, and waits until it has joined."""
        member = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "strandline_lab.bench.streams.moves",
                MEMBER,
                self._bootstrap,
                self.application,
            ),
            *(self.lines, self.out, str(self._folder / uuid4().hex)),
        )
        self._members.append(member)
        while await self._joined() < len(self._members):
            await self._clock.sleep(LOOK_EVERY_S)

    async def _joined(self) -> int:
        try:
            return len((await self._admin.describe_group(self.application)).group.members)
        except GroupIdNotFound:
            return 0

    async def _came_out(self, key: bytes) -> None:
        while key not in self.gaps.seen:
            await self._clock.sleep(LOOK_EVERY_S)


@asynccontextmanager
async def moving(bootstrap: str, size_mb: int) -> AsyncIterator[Moves]:
    """One member with a state of this size, and a constant stream of records."""
    async with (
        Admin(bootstrap) as admin,
        Producer(bootstrap) as producer,
        Consumer(bootstrap, offset_reset="earliest") as consumer,
        asyncio.TaskGroup() as tasks,
    ):
        with TemporaryDirectory(prefix="stream-moves-") as folder:
            moves = Moves(bootstrap, Path(folder), producer, admin, Gaps(consumer))
            for topic in (moves.lines, moves.out):
                await admin.create_topic(topic, 1, replication_factor=3)
            consumer.assign([TopicPartition(moves.out, 0)])
            running = [tasks.create_task(moves.gaps.run())]
            try:
                async with asyncio.timeout(MOVED_S_MAX):
                    await moves.begin(size_mb)
                    running.append(tasks.create_task(moves.feed()))
                    yield moves
            finally:
                for task in running:
                    _ = task.cancel()
                await moves.end()


async def member(bootstrap: str, application: str, lines: str, out: str, folder: str) -> None:
    """Runs the application: on LEAVES it hands over first, on STOPS it just ends."""
    app = Streams(topology(lines, out), bootstrap, application_id=application, state_dir=folder)
    signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
    for number in MOVES.values():
        asyncio.get_running_loop().add_signal_handler(number, signals.put_nowait, number)
    async with app:
        if await signals.get() is LEAVES:
            _ = await app.leave()


def main() -> None:
    """Runs a member, or the measurement with sizes and runs from the command line."""
    if sys.argv[1:2] == [MEMBER]:
        uvloop.run(member(*sys.argv[2:]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--mb", default=",".join(map(str, SIZES_MB)), help="sizes of the state")
    given = parser.parse_args()
    asyncio.run(measure(given.runs, [int(size) for size in given.mb.split(",")]))


if __name__ == "__main__":
    main()
