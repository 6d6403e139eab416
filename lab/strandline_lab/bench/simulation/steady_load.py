"""`python -m strandline_lab.bench.simulation.steady_load RATE SECONDS`: a simulated cluster under load.

Three brokers and a controller; a topic of four partitions with three replicas; one producer with acks=all and
linger 1 ms, which sends `RATE` records of 100 B per second; one consumer.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from typing import Final

import structlog

from strandline.client.admin.admin import Admin
from strandline.consumer.consumer import Consumer
from strandline.host import Host
from strandline.ids import TopicPartition
from strandline.producer.producer import Producer
from strandline.simulation.cluster import Cluster
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline.simulation.engine.world import World
from strandline_lab.bench.report import resident_mib

TOPIC: Final = "load"
PARTITIONS: Final = 4
REPLICAS: Final = 3
VALUE: Final = bytes(100)
LEAD_S: Final = 2.0
"""Virtual time before the measurement: connections open, code is warm."""
SEED: Final = 1


async def _create(host: Host, bootstrap: list[str]) -> None:
    async with Admin(bootstrap, host=host) as admin:
        await admin.create_topic(TOPIC, PARTITIONS, REPLICAS, {"min.insync.replicas": "2"})


async def _write(host: Host, bootstrap: list[str], rate: float) -> None:
    async with Producer(bootstrap, host=host, linger_ms=1) as producer:
        record = 0
        while True:
            record += 1
            sent = await producer.send(TOPIC, VALUE, partition=record % PARTITIONS)
            sent.add_done_callback(asyncio.Future.result)  # a lost record is a defect here
            await host.clock.sleep(1 / rate)


async def _read(host: Host, bootstrap: list[str]) -> None:
    async with Consumer(bootstrap, host=host, offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        async for _ in consumer:
            pass


def measured(rate: float, seconds: float) -> dict[str, float]:
    """The figures of one cluster."""
    pid = os.getpid()
    before_mib, began = resident_mib(pid), time.process_time()
    figures: dict[str, float] = {}
    with World(SEED) as world:
        cluster = Cluster(world)

        def client(name: str) -> SimulatedProcess:
            return world.new_process(name, world.new_machine())

        async def whole() -> None:
            admin = client("admin")
            await admin.run(_create(admin.host, cluster.bootstrap))
            figures["start_ms"] = 1000 * (time.process_time() - began)
            figures["cluster_mib"] = resident_mib(pid) - before_mib
            tasks: list[asyncio.Task[None]] = []
            if rate:
                writer, reader = client("writer"), client("reader")
                tasks.append(writer.run(_write(writer.host, cluster.bootstrap, rate)))
                tasks.append(reader.run(_read(reader.host, cluster.bootstrap)))
            await asyncio.sleep(LEAD_S)
            loaded = time.process_time()
            await asyncio.sleep(seconds)
            figures["virtual_s"] = seconds / (time.process_time() - loaded)
            assert not any(task.done() for task in tasks), "a client has ended"

        world.run(whole())
    figures["process_mib"] = resident_mib(pid)
    return figures


def main() -> None:
    logging.disable(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    rate, seconds = map(float, sys.argv[1:])
    measured(0, 1)  # the first cluster of a process imports and caches
    print(json.dumps(measured(rate, seconds)))


if __name__ == "__main__":
    main()
