"""One run of one seed: writers and readers of a topic, faults, healing, and what was found wrong then."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

import structlog

from strandline.auditing import closed_topic
from strandline.auditing.history import History
from strandline.auditing.recording import Recorder
from strandline.auditing.reference import Logged, Span
from strandline.client.admin.admin import Admin
from strandline.consumer.consumer import Consumer
from strandline.errors import StrandlineError
from strandline.host import Host
from strandline.ids import TopicPartition
from strandline.producer.producer import Producer
from strandline.simulation.cluster import Cluster
from strandline.simulation.nemesis import Nemesis
from strandline.simulation.world import World

TOPIC: Final = "topic"
CREATED_S_MAX: Final = 60.0
HEALED_S_MAX: Final = 120.0
"""After all faults have ended: until every record is acknowledged or refused and everything can be read."""
DELIVERY_TIMEOUT_MS: Final = 60_000
TAIL_S: Final = 0.5


@dataclass(slots=True)
class Outcome:
    """What a run showed."""

    seed: int
    trace: str
    """The hash of its trace."""
    virtual_s: float
    records: int
    """Acknowledged ones, as the topic has them at the end."""
    faults: list[str]
    problems: list[str] = field(default_factory=list)
    """One line for each; empty if all is well."""


@dataclass(slots=True)
class _Plan:
    """What a seed draws for its clients."""

    partitions: int
    writers: int
    pause_s: float
    flush: bool
    """Every record is synced before it is acknowledged, so that no loss of power may cost one."""
    seconds: float

    @staticmethod
    def drawn(random: Random, seconds: float) -> _Plan:
        return _Plan(
            partitions=random.randint(1, 4),
            writers=random.randint(1, 3),
            pause_s=random.choice((0.02, 0.1, 0.3)),
            flush=random.random() < 1 / 2,
            seconds=seconds,
        )

    @property
    def config(self) -> dict[str, str]:
        config = {"min.insync.replicas": "2"}
        return {**config, "flush.messages": "1"} if self.flush else config


class SeededRun:
    """Holds what the clients saw."""

    def __init__(self, world: World, seconds: float) -> None:
        random = world.random("plan")
        self._world = world
        self._plan = _Plan.drawn(random, seconds)
        self._cluster = Cluster(world, controllers=2)
        self._nemesis = Nemesis(self._cluster, world.random("nemesis"), power=self._plan.flush)
        self._stop = asyncio.Event()
        self._histories: list[History] = []
        self._names = [TopicPartition(TOPIC, number) for number in range(self._plan.partitions)]
        self._log: list[Logged] = []
        self._spans: dict[tuple[str, int], Span] = {}

    def run(self) -> Outcome:
        problems: list[str] = []
        try:
            self._world.run(self._whole())
        except (TimeoutError, AssertionError, StrandlineError) as error:
            problems.append(f"it did not heal: {error!r}")
        except BaseExceptionGroup as group:
            problems.append(f"a client failed: {group.exceptions!r}")
        else:
            found = closed_topic.findings(self._histories, self._log, self._spans)
            problems += [each.sentence for each in found]
        problems += self._world.defects
        now_s = self._world.loop.now_ns() / 1e9
        return Outcome(
            self._world.seed,
            self._world.trace.digest(),
            now_s,
            len(self._log),
            self._nemesis.done,
            problems,
        )

    async def _whole(self) -> None:
        clients = [self._client(f"writer {number}") for number in range(self._plan.writers)]
        admin = self._client("admin")
        async with asyncio.timeout(CREATED_S_MAX):
            await admin.run(self._create(admin.host))
        tasks = [
            each.run(self._write(each.name, each.host, self._world.random(each.name))) for each in clients
        ]
        follower = self._client("reader")
        reading = follower.run(self._follow(follower.name, follower.host))
        nemesis = asyncio.get_running_loop().create_task(self._nemesis.run())
        await asyncio.sleep(self._plan.seconds)
        nemesis.cancel()
        await asyncio.wait([nemesis])
        self._nemesis.heal()
        self._stop.set()
        async with asyncio.timeout(HEALED_S_MAX):
            for task in tasks:
                await task
            await admin.run(self._read_all(admin.host))
            await reading

    def _client(self, name: str) -> Any:
        return self._world.new_process(name, self._world.new_machine())

    # --- clients -----------------------------------------------------------------------------

    async def _create(self, host: Host) -> None:
        async with Admin(self._cluster.bootstrap, host=host) as admin:
            await admin.create_topic(TOPIC, self._plan.partitions, 3, self._plan.config)

    async def _write(self, name: str, host: Host, random: Random) -> None:
        """Send until the faults end. Returns once each record is acknowledged or has failed."""
        recorder = Recorder(name, TOPIC)
        self._histories.append(recorder.history)
        producer = Producer(
            self._cluster.bootstrap, host=host, delivery_timeout_ms=DELIVERY_TIMEOUT_MS, linger_ms=1
        )
        record = 0
        async with producer:
            while not self._stop.is_set():
                record += 1
                partition, value = random.randrange(self._plan.partitions), f"{name} {record}".encode()
                recorder.sent(record, None, value, partition)
                sent = await producer.send(TOPIC, value, partition=partition)
                sent.add_done_callback(partial(_settled, recorder, record))
                await host.clock.sleep(random.expovariate(1 / self._plan.pause_s))
            await producer.flush()

    async def _follow(self, name: str, host: Host) -> None:
        """Read along, from the beginning until the faults have ended."""
        recorder = Recorder(name, TOPIC)
        self._histories.append(recorder.history)
        async with Consumer(self._cluster.bootstrap, host=host, offset_reset="earliest") as consumer:
            consumer.assign(self._names)
            recorder.assigned(*range(self._plan.partitions))
            while not self._stop.is_set():
                await self._receive(consumer, recorder)

    async def _read_all(self, host: Host) -> None:
        """Read everything: this is the log that the histories are held against."""
        recorder = Recorder("the log", TOPIC)
        async with Consumer(self._cluster.bootstrap, host=host, offset_reset="earliest") as consumer:
            ends = await consumer.end_offsets(self._names)
            consumer.assign(self._names)
            while any([await consumer.position(name) < ends[name] for name in self._names]):
                await self._receive(consumer, recorder)
        self._log = list(recorder.log())
        for name in self._names:
            self._spans[TOPIC, name.partition] = Span(0, ends[name])

    async def _receive(self, consumer: Consumer, recorder: Recorder) -> None:
        try:
            async with asyncio.timeout(TAIL_S):
                record = await anext(consumer)
        except TimeoutError:
            return
        recorder.received(record.partition, [record])


def _settled(recorder: Recorder, record: int, sent: asyncio.Future[Any]) -> None:
    if sent.cancelled():
        return
    error = sent.exception()
    if error is None:
        recorder.acked(record, sent.result().partition, sent.result().offset)
    else:
        recorder.failed(record, error)


def run_seed(seed: int, seconds: float = 30.0) -> Outcome:
    """Run one seed: faults for this time, then healing."""
    with World(seed) as world:
        return SeededRun(world, seconds).run()


def run_quietly(seed: int, seconds: float) -> Outcome:
    """`run_seed` without the logs of the services: faults fill them."""
    logging.disable(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    return run_seed(seed, seconds)
