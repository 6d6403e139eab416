"""Measures the cost of a single fault: the longest time without an acknowledged write, and the time until
every replica is in sync again. Also the throughput when a follower dies, and while all brokers restart."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from strandline import Admin, BulkMetadata, Consumer, LocalCluster, NewTopic, Producer
from strandline.adapters.system.clock import SystemClock
from strandline.cli.load.completeness import LOOK_AGAIN_S, isr_whole
from strandline.cli.load.feed import PER_S, Feeder
from strandline.errors import BrokerNotAvailable, StrandlineError
from strandline_lab.bench.report import RUNS, heading, median_of, table
from strandline_lab.perf.measure import spread

TOPIC: Final = "fed"
BULK: Final = "bulk"
GROUP: Final = "readers"
PARTITIONS: Final = 2
"""With two partitions, one broker of three leads none: the follower to kill."""
BULK_PARTITIONS: Final = 3
NEVER_MS: Final = 3_600_000
CALM_S: Final = 0.5
"""Pause before each fault; and after each, so that its last effects are seen."""
HELD_S: Final = 2.5
"""Longer than the leader waits for a replica that lags (`keep_in_sync_ms`)."""
PAUSED_S: Final = 5.0
"""Longer than a session with ZooKeeper, since no other broker may lead before its end."""
WHOLE_S_MAX: Final = 60.0
COMMIT_EVERY_S: Final = 0.02
WINDOW_S: Final = 3.0
"""The length of a window of throughput."""
VALUES: Final = [bytes(100)] * 2_000
CALLS_IN_FLIGHT: Final = 6

CLOCK: Final = SystemClock()


async def measure(runs: int = RUNS) -> None:
    """Prints the tables."""
    seen = await _gaps(runs)
    heading(
        f"One fault at a time, {runs} rounds each, a record every {1000 / PER_S:.0f} ms into each of "
        f"{PARTITIONS} partitions; ms",
        "availability",
    )
    _show_gaps(seen)
    clusters = max(1, runs // 2)
    shares = [await _throughput(run, clusters) for run in range(clusters)]
    heading(f"Throughput of 100 B records in bulk, {clusters} clusters", "availability")
    table(
        ["", "median (min–max)"],
        [[name, median_of([share[name] for share in shares])] for name in shares[0]],
    )


# --- gaps -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Ground:
    """A cluster under load, and the clients that observe it."""

    cluster: LocalCluster
    admin: Admin
    feeds: Sequence[Feeder]
    commits: Commits

    async def leader(self) -> int:
        """The leader of the first partition."""
        return (await whole(self.admin, TOPIC))[0]

    async def follower(self) -> int:
        """A broker that leads no partition."""
        leaders = await whole(self.admin, TOPIC)
        return next(broker for broker in self.cluster.broker_ids if broker not in leaders.values())

    async def coordinator(self) -> int:
        return (await self.admin.describe_group(GROUP)).coordinator.id

    async def nobody(self) -> int:
        return -1


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: how its member is found, how it is applied and undone, and for how long."""

    name: str
    who: Callable[[Ground], Awaitable[int]]
    harm: Callable[[LocalCluster, int], Awaitable[None]]
    mend: Callable[[LocalCluster, int], Awaitable[None]]
    held_s: float = HELD_S


@dataclass(slots=True)
class Costs:
    """The costs of one fault over all rounds, in seconds."""

    led: list[float] = field(default_factory=list)
    """The longest gaps of the partitions that its member led."""
    others: list[float] = field(default_factory=list)
    commits: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    """Times from the beginning of its return until every replica is in sync."""
    failed: int = 0


async def _nothing(cluster: LocalCluster, who: int) -> None:
    pass


async def _pause(cluster: LocalCluster, who: int) -> None:
    cluster.pause_broker(who)


async def _resume(cluster: LocalCluster, who: int) -> None:
    cluster.resume_broker(who)


async def _kill_zookeeper(cluster: LocalCluster, who: int) -> None:
    await cluster.kill_zookeeper()


async def _start_zookeeper(cluster: LocalCluster, who: int) -> None:
    await cluster.start_zookeeper()


async def _kill_controller(cluster: LocalCluster, who: int) -> None:
    await cluster.kill_controller(cluster.controller_ids[0])


async def _start_controller(cluster: LocalCluster, who: int) -> None:
    await cluster.start_controller(cluster.controller_ids[0])


_KILL, _STOP, _START = LocalCluster.kill_broker, LocalCluster.stop_broker, LocalCluster.start_broker

FAULTS: Final = (
    Fault("none", Ground.nobody, _nothing, _nothing),
    Fault("leader killed (SIGKILL)", Ground.leader, _KILL, _START),
    Fault("leader stopped (SIGTERM)", Ground.leader, _STOP, _START),
    Fault(f"leader hangs for {PAUSED_S:g} s (SIGSTOP)", Ground.leader, _pause, _resume, PAUSED_S),
    Fault("follower killed", Ground.follower, _KILL, _START),
    Fault("coordinator of a group killed", Ground.coordinator, _KILL, _START),
    Fault("the only controller killed", Ground.nobody, _kill_controller, _start_controller),
    Fault("ZooKeeper killed, and started again", Ground.nobody, _kill_zookeeper, _start_zookeeper),
)


class Commits:
    """A group member that reads and commits all the time, and the longest time between two commits."""

    def __init__(self, consumer: Consumer) -> None:
        self.longest_s = 0.0
        self._consumer = consumer
        self._last: float | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Reads and commits. A failed commit is tried again with the records read meanwhile."""
        while not stop.is_set():
            try:
                await self._consumer.getmany(timeout_ms=20)
                await self._consumer.commit()
            except StrandlineError:
                await CLOCK.sleep(COMMIT_EVERY_S)
                continue
            now = CLOCK.monotonic()
            if self._last is not None:
                self.longest_s = max(self.longest_s, now - self._last)
            self._last = now
            await CLOCK.sleep(COMMIT_EVERY_S)


async def _gaps(rounds: int) -> Mapping[str, Costs]:
    """Applies each fault this many times, in turns."""
    costs: dict[str, Costs] = defaultdict(Costs)
    settings = {"preferred_leader_check_ms": NEVER_MS}
    async with (
        LocalCluster(brokers=3, broker_settings=settings) as cluster,
        Admin(cluster.bootstrap) as admin,
        AsyncExitStack() as clients,
    ):
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3, {"min.insync.replicas": "2"})])
        producers = [
            await clients.enter_async_context(Producer(cluster.bootstrap)) for _ in range(PARTITIONS)
        ]
        consumer = await clients.enter_async_context(Consumer(cluster.bootstrap, group_id=GROUP))
        consumer.subscribe([TOPIC])
        feeds = [Feeder(producer, TOPIC) for producer in producers]
        ground = Ground(cluster, admin, feeds, Commits(consumer))
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for partition, feed in enumerate(feeds):
                tasks.create_task(feed.run(stop, partitions=[partition]))
            tasks.create_task(ground.commits.run(stop))
            for feed in feeds:
                await feed.gap.begun.wait()
            for number in range(rounds):
                print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
                for fault in FAULTS:
                    await _round(ground, fault, costs[fault.name])
            stop.set()
    return costs


async def _round(ground: Ground, fault: Fault, costs: Costs) -> None:
    """Applies the fault once, and waits until the cluster is healthy again."""
    who = await fault.who(ground)
    leaders = await whole(ground.admin, TOPIC)
    await CLOCK.sleep(CALM_S)
    failed = sum(feed.failed for feed in ground.feeds)
    for feed in ground.feeds:
        feed.gap.longest_s = 0.0
    ground.commits.longest_s = 0.0
    await fault.harm(ground.cluster, who)
    await CLOCK.sleep(fault.held_s)
    mended_at = CLOCK.monotonic()
    await fault.mend(ground.cluster, who)
    await whole(ground.admin, TOPIC)
    if who >= 0:  # only brokers leave an ISR
        costs.whole.append(CLOCK.monotonic() - mended_at)
    await CLOCK.sleep(CALM_S)
    for partition, feed in enumerate(ground.feeds):
        (costs.led if leaders[partition] == who else costs.others).append(feed.gap.longest_s)
    costs.commits.append(ground.commits.longest_s)
    costs.failed += sum(feed.failed for feed in ground.feeds) - failed


def _show_gaps(seen: Mapping[str, Costs]) -> None:
    table(
        [
            "p50 / p99 / max",
            "longest without an acknowledged write, partitions that it led",
            "partitions that others led",
            "longest between two commits of a group",
            "from its return to a full ISR",
            "records failed",
        ],
        [
            [name, *map(_figures, (cost.led, cost.others, cost.commits, cost.whole)), str(cost.failed)]
            for name, cost in seen.items()
        ],
    )


def _figures(seconds: Sequence[float]) -> str:
    return " / ".join(f"{figure:.0f}" for figure in spread(seconds).values()) if seconds else ""


async def whole(admin: Admin, topic: str) -> Mapping[int, int]:
    """`isr_whole`, also while no broker has a session with ZooKeeper and none can answer."""
    async with asyncio.timeout(WHOLE_S_MAX):
        while True:
            try:
                return await isr_whole(admin, topic)
            except BrokerNotAvailable:
                await CLOCK.sleep(LOOK_AGAIN_S)


# --- throughput -------------------------------------------------------------------------------


async def _throughput(run: int, runs: int) -> Mapping[str, float]:
    """The rate of one undisturbed cluster, and shares of the mean of the windows before and after."""
    print(f"throughput, run {run + 1} of {runs}", file=sys.stderr, flush=True)
    async with (
        LocalCluster(brokers=3, broker_settings={"preferred_leader_check_ms": NEVER_MS}) as cluster,
        Admin(cluster.bootstrap) as admin,
        Producer(cluster.bootstrap) as producer,
    ):
        await admin.create_topics([NewTopic(BULK, BULK_PARTITIONS, 3, {"min.insync.replicas": "2"})])
        await whole(admin, BULK)
        bulk = Bulk(producer)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(bulk.run(stop))
            await CLOCK.sleep(CALM_S)
            before = await bulk.rate(_wait(WINDOW_S))
            dead = next(iter(cluster.broker_ids))
            await cluster.stop_broker(dead)  # so that it leads nothing, and is only a follower
            await cluster.start_broker(dead)
            await whole(admin, BULK)
            await CLOCK.sleep(CALM_S)
            between = await bulk.rate(_wait(WINDOW_S))
            death = await bulk.rate(_die(cluster, dead))
            away = await bulk.rate(_wait(WINDOW_S))
            await cluster.start_broker(dead)
            await whole(admin, BULK)
            await CLOCK.sleep(CALM_S)
            again = await bulk.rate(_wait(WINDOW_S))
            began = CLOCK.monotonic()
            rolling = await bulk.rate(_restart_all(cluster, admin))
            took_s = CLOCK.monotonic() - began
            after = await bulk.rate(_wait(WINDOW_S))
            stop.set()
    return {
        "undisturbed, records/s": (before + between + again + after) / 4,
        "undisturbed once more, share": 2 * between / (before + again),
        f"a follower is killed: {WINDOW_S:g} s from then on, share": 2 * death / (between + again),
        f"the {WINDOW_S:g} s after these, while it stays away, share": 2 * away / (between + again),
        "all brokers restart in turn, share": 2 * rolling / (again + after),
        "all brokers restart in turn: took, s": took_s,
        "records failed": bulk.failed,
    }


class Bulk:
    """Sends records without pause, and counts the acknowledged ones."""

    def __init__(self, producer: Producer) -> None:
        self.acked = 0
        self.failed = 0
        self._producer = producer
        self._slots = asyncio.Semaphore(CALLS_IN_FLIGHT)

    async def run(self, stop: asyncio.Event) -> None:
        partition = 0
        while not stop.is_set():
            await self._slots.acquire()
            partition = (partition + 1) % BULK_PARTITIONS
            sent = await self._producer.send_many(BULK, VALUES, partition=partition)
            sent.add_done_callback(self._ended)
        await self._producer.flush()

    async def rate(self, work: Awaitable[None]) -> float:
        """Records acknowledged a second while `work` runs."""
        began, acked = CLOCK.monotonic(), self.acked
        await work
        return (self.acked - acked) / (CLOCK.monotonic() - began)

    def _ended(self, sent: asyncio.Future[BulkMetadata]) -> None:
        self._slots.release()
        if sent.exception() is None:
            self.acked += len(VALUES)
        else:
            self.failed += len(VALUES)


async def _wait(seconds: float) -> None:
    await CLOCK.sleep(seconds)


async def _die(cluster: LocalCluster, broker: int) -> None:
    await cluster.kill_broker(broker)
    await CLOCK.sleep(WINDOW_S)


async def _restart_all(cluster: LocalCluster, admin: Admin) -> None:
    """Restarts each broker with a handover; the next one once all are in sync again."""
    for broker in cluster.broker_ids:
        await cluster.stop_broker(broker)
        await cluster.start_broker(broker)
        await whole(admin, BULK)
