"""A cluster changes from plaintext to TLS while clients write (docs/run/security.md)."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.helpers import create_ssl_context

from strandline import Admin, Consumer, Producer
from strandline.config.security import SSL
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.local.cluster import LocalCluster
from strandline.local.ports import LOOPBACK, free_ports
from tests.conftest import ClusterFactory
from tests.integration.support.harness import FAULT_SETTINGS
from tests.tls_files import Files, TestAuthority
from tests.waiting import eventually

pytestmark = pytest.mark.slow

TOPIC = "tides"
PROGRESS = 30
Send = Callable[[bytes], Awaitable[object]]


@dataclass
class Load:
    """One client that writes, a record after the other. An error ends the test."""

    name: str
    acknowledged: list[bytes] = field(default_factory=list)
    stopping: bool = False

    async def run(self, send: Send) -> None:
        for number in itertools.count():
            if self.stopping:
                return
            value = f"{self.name} {number}".encode()
            await send(value)
            self.acknowledged.append(value)

    async def progress(self) -> None:
        before = len(self.acknowledged)
        what = f"{self.name} wrote {PROGRESS} more than {before}"
        await eventually(lambda: len(self.acknowledged) >= before + PROGRESS, deadline_s=60, what=what)


Client = Callable[[Load], Coroutine[Any, Any, None]]


class Loads:
    """All clients, and what they had acknowledged."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._running: list[tuple[Load, asyncio.Task[None]]] = []
        self.acknowledged: list[bytes] = []

    def start(self, name: str, client: Client) -> None:
        load = Load(name)
        self._running.append((load, self._tasks.create_task(client(load))))

    async def progress(self) -> None:
        """Returns once each client wrote more."""
        for load, _ in self._running:
            await load.progress()

    async def stop(self) -> None:
        """The clients end after their last record."""
        for load, _ in self._running:
            load.stopping = True
        for load, task in self._running:
            await task
            self.acknowledged += load.acknowledged
        self._running.clear()


def writes(bootstrap: str, settings: dict[str, Any]) -> Client:
    async def client(load: Load) -> None:
        async with Producer(bootstrap, **settings) as producer:

            async def send(value: bytes) -> None:
                await (await producer.send(TOPIC, value))

            await load.run(send)

    return client


def writes_by_kafka(bootstrap: str, secured: dict[str, Any]) -> Client:
    async def client(load: Load) -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, **secured
        ) as producer:
            await load.run(lambda value: producer.send_and_wait(TOPIC, value))

    return client


async def restart_each(
    cluster: LocalCluster,
    loads: Loads,
    admin: Admin,
    change: Callable[[str], dict[str, Any]],
) -> None:
    """Every controller and broker, one after the other, with changed settings."""
    for controller in cluster.controller_ids:
        await cluster.stop_controller(controller)
        await loads.progress()
        await cluster.start_controller(controller, **change(f"controller-{controller}"))
        await loads.progress()
    for broker in cluster.broker_ids:
        await eventually(partial(ready, admin, broker), deadline_s=60, what=f"{broker} is ready")
        await cluster.stop_broker(broker)
        await loads.progress()
        await cluster.start_broker(broker, **change(f"broker-{broker}"))
        await loads.progress()
    for broker in cluster.broker_ids:
        await eventually(partial(ready, admin, broker), deadline_s=60, what=f"{broker} is ready")


async def ready(admin: Admin, broker: int) -> bool:
    try:
        return (await admin.check_broker(broker)).ready
    except StrandlineError:
        return False


@asynccontextmanager
async def running() -> AsyncIterator[Loads]:
    async with asyncio.TaskGroup() as tasks:
        loads = Loads(tasks)
        yield loads
        await loads.stop()


async def everything(bootstrap: str, settings: dict[str, Any]) -> Counter[bytes]:
    """How often each value is in the topic."""
    found: Counter[bytes] = Counter()
    async with Consumer(bootstrap, offset_reset="earliest", **settings) as consumer:
        consumer.assign(TopicPartition(TOPIC, number) for number in await consumer.partitions_for(TOPIC))
        ends = await consumer.end_offsets(consumer.assignment())
        while [name for name, end in ends.items() if await consumer.position(name) < end]:
            for records in (await consumer.getmany(timeout_ms=1_000)).values():
                found.update(record.value or b"" for record in records)
    return found


def port_settings(external: int, kafka_external: int | None) -> dict[str, Any]:
    """A second port for clients, which is encrypted from the begin."""
    found: dict[str, Any] = {
        "external_port": external,
        "external_host": LOOPBACK,
        "external_security_protocol": SSL,
    }
    if kafka_external is not None:
        found["kafka_external_port"] = kafka_external
        found["kafka_external_host"] = LOOPBACK
        found["kafka_external_security_protocol"] = SSL
    return found


@pytest.mark.timeout(300)
async def test_three_rolling_restarts_encrypt_a_cluster_under_load(
    make_cluster: ClusterFactory, tmp_path: Path
) -> None:
    """CORRECTNESS X17: no client has an error, and each acknowledged record is there once."""
    authority = TestAuthority(tmp_path / "authority")
    cluster = await make_cluster(
        brokers=3, controllers=2, kafka=True, broker_settings=FAULT_SETTINGS,
        controller_settings={"reconcile_ms": 500},
    )  # fmt: skip
    ours = authority.issue("alice")
    members = [f"controller-{number}" for number in cluster.controller_ids]
    brokers = [f"broker-{number}" for number in cluster.broker_ids]
    certificates: dict[str, Files] = {name: authority.issue(name) for name in members + brokers}
    external = dict(zip(members + brokers, free_ports(len(certificates)), strict=True))
    kafka_external = dict(zip(brokers, free_ports(len(brokers)), strict=True))
    secure = ",".join(f"{LOOPBACK}:{external[name]}" for name in brokers)
    secure_kafka = ",".join(f"{LOOPBACK}:{port}" for port in kafka_external.values())
    tls = create_ssl_context(cafile=ours.cafile, certfile=ours.certfile, keyfile=ours.keyfile)
    kafka_tls = {"security_protocol": "SSL", "ssl_context": tls}

    def second_ports(name: str) -> dict[str, Any]:
        files = {k: v for k, v in certificates[name].settings.items() if k != "security_protocol"}
        ports = port_settings(external[name], kafka_external.get(name))
        return {**files, **ports, "mixed_security_protocols": True}

    async with Admin(cluster.bootstrap) as admin, running() as loads:
        await admin.create_topic(TOPIC, partitions=3, replication_factor=3)
        loads.start("plain", writes(cluster.bootstrap, {}))
        loads.start("plain kafka", writes_by_kafka(cluster.kafka_bootstrap, {}))
        await loads.progress()
        await restart_each(cluster, loads, admin, second_ports)
        async with Admin(secure, **ours.settings) as secured:
            await loads.stop()  # clients move to the second ports, one after the other
            loads.start("encrypted", writes(secure, ours.settings))
            loads.start("encrypted kafka", writes_by_kafka(secure_kafka, kafka_tls))
            await loads.progress()
            await restart_each(cluster, loads, secured, lambda _: {"security_protocol": SSL})
            await restart_each(cluster, loads, secured, lambda _: {"mixed_security_protocols": False})
            loads.start("first port", writes(cluster.bootstrap, ours.settings))
            loads.start("first kafka port", writes_by_kafka(cluster.kafka_bootstrap, kafka_tls))
            await loads.progress()
    found = await everything(cluster.bootstrap, ours.settings)
    assert {value: found[value] for value in loads.acknowledged if found[value] != 1} == {}
    assert len(loads.acknowledged) > 1_000
