"""Certificates are renewed under load, and a killed broker is noticed (docs/correctness.md, X11, X12)."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from datetime import UTC, datetime
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from cryptography import x509

from strandline import Admin, Producer
from strandline.adapters.tls.authority import Authority
from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.support.harness import FAULT_SETTINGS
from tests.scraping import Prometheus, scraped
from tests.waiting import eventually

RELOAD_MS = 50
ACKNOWLEDGED = 200


async def serial_of(cluster: LocalCluster) -> int:
    """The serial number of the certificate that broker 1 shows to a new connection."""
    host, port = cluster.address(1).split(":")
    files = {name: cluster.client_settings[f"ssl_{name}"] for name in ("cafile", "certfile", "keyfile")}
    context = create_ssl_context(**files)
    context.check_hostname = False
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return x509.load_der_x509_certificate(shown).serial_number


async def test_certificates_of_brokers_and_clients_are_renewed_under_load(
    make_cluster: ClusterFactory,
) -> None:
    """CORRECTNESS X11: no record fails, and new connections see the new certificate."""
    cluster = await make_cluster(
        brokers=3, secure=True, broker_settings={**FAULT_SETTINGS, "ssl_reload_ms": RELOAD_MS}
    )
    settings = {**cluster.client_settings, "ssl_reload_ms": RELOAD_MS}
    async with Admin(cluster.bootstrap, **settings) as admin:
        await admin.create_topic("tides", partitions=3, replication_factor=3)
    acknowledged, first = 0, await serial_of(cluster)
    async with Producer(cluster.bootstrap, **settings) as producer:

        async def load() -> None:
            nonlocal acknowledged
            for number in itertools.count():
                await (await producer.send("tides", b"%d" % number, partition=number % 3))
                acknowledged += 1

        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(load())
            await eventually(lambda: acknowledged > ACKNOWLEDGED, deadline_s=30)
            authority = Authority.load(cluster.directory / "tls")
            for name in ("broker-1", "broker-2", "broker-3", "controller-1", "admin"):
                hosts = () if name == "admin" else ("127.0.0.1", "localhost")
                authority.issue(name, datetime.now(UTC), days=1, hosts=hosts)

            async def renewed() -> bool:
                return await serial_of(cluster) != first

            await eventually(renewed, deadline_s=30)
            before = acknowledged
            await cluster.kill_broker(1)  # its clients connect elsewhere, with the new certificates
            await eventually(lambda: acknowledged > before + ACKNOWLEDGED, deadline_s=30)
            running.cancel()


async def test_files_that_cannot_be_used_leave_a_broker_serving(make_cluster: ClusterFactory) -> None:
    """CORRECTNESS X11."""
    cluster = await make_cluster(brokers=1, secure=True, broker_settings={"ssl_reload_ms": RELOAD_MS})
    first = await serial_of(cluster)
    folder: Path = cluster.directory / "tls"
    shutil.copy(folder / "admin.pem", folder / "broker-1.pem")

    async def refused() -> bool:
        assert await serial_of(cluster) == first
        return "new certificates cannot be used" in cluster.log_path(1).read_text()

    await eventually(refused, deadline_s=30)
    port = cluster.metrics_port(1)
    assert port is not None
    await scraped(
        port,
        lambda s: (
            s("strandline_tls_reload_failures_total") >= 1
            and s("strandline_tls_certificate_expiry_seconds") > 0
        ),
        Prometheus.of(cluster),
    )
    async with Admin(cluster.bootstrap, **cluster.client_settings) as admin:
        await admin.create_topic("tides")


async def test_a_kafka_client_connects_with_a_certificate(make_cluster: ClusterFactory) -> None:
    """CORRECTNESS X13."""
    cluster = await make_cluster(brokers=1, secure=True, kafka=True)
    files = {name: cluster.client_settings[f"ssl_{name}"] for name in ("cafile", "certfile", "keyfile")}
    secured = {
        "bootstrap_servers": cluster.kafka_bootstrap,
        "security_protocol": "SSL",
        "ssl_context": create_ssl_context(**files),
    }
    async with Admin(cluster.bootstrap, **cluster.client_settings) as admin:
        await admin.create_topic("tides")
    async with AIOKafkaProducer(**secured) as producer:
        await producer.send_and_wait("tides", b"x" * 300_000)
    async with AIOKafkaConsumer("tides", auto_offset_reset="earliest", **secured) as consumer:
        assert (await consumer.getone()).value == b"x" * 300_000
