"""Certificates are renewed under load, and a killed broker is noticed (docs/correctness.md, X11, X12)."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from cryptography import x509

from strandline import Admin, Producer
from strandline.adapters.tls.authority import Authority, certificate_path, key_path
from strandline.cli.shell.clock import now
from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.support.harness import FAULT_SETTINGS
from tests.scraping import Prometheus, scraped
from tests.waiting import eventually

RELOAD_MS = 50
SETTLE_S = 30.0
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


async def renewing(make_cluster: ClusterFactory) -> tuple[LocalCluster, dict[str, Any]]:
    """A cluster that looks at its files often, and the settings of clients that do."""
    often = {"ssl_reload_ms": RELOAD_MS}
    cluster = await make_cluster(
        brokers=3, secure=True, broker_settings={**FAULT_SETTINGS, **often}, controller_settings=often
    )
    return cluster, {**cluster.client_settings, **often}


class Load:
    """A producer whose every record is acknowledged, until the block ends."""

    def __init__(self) -> None:
        self.acknowledged = 0

    async def progress(self) -> None:
        before = self.acknowledged
        await eventually(lambda: self.acknowledged > before + ACKNOWLEDGED, deadline_s=SETTLE_S)

    async def run(self, producer: Producer) -> None:
        for number in itertools.count():
            await (await producer.send("tides", b"%d" % number, partition=number % 3))
            self.acknowledged += 1


@asynccontextmanager
async def loaded(cluster: LocalCluster, settings: dict[str, Any]) -> AsyncIterator[Load]:
    async with Admin(cluster.bootstrap, **settings) as admin:
        await admin.create_topic("tides", partitions=3, replication_factor=3)
    load = Load()
    async with Producer(cluster.bootstrap, **settings) as producer, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(load.run(producer))
        await load.progress()
        yield load
        running.cancel()


def issue_all(cluster: LocalCluster, authority: Authority) -> None:
    """New certificates for all members and the admin."""
    for name in ("broker-1", "broker-2", "broker-3", "controller-1", "admin"):
        hosts = () if name == "admin" else ("127.0.0.1", "localhost")
        authority.issue(name, now(UTC), days=1, hosts=hosts)
        for path in (key_path(authority.folder, name), certificate_path(authority.folder, name)):
            put_in_place(cluster, path.name, path.read_bytes())


def put_in_place(cluster: LocalCluster, name: str, content: bytes) -> None:
    draft = cluster.directory / "tls" / "draft"
    draft.touch(mode=0o600)
    draft.write_bytes(content)
    draft.rename(cluster.directory / "tls" / name)


async def test_certificates_of_brokers_and_clients_are_renewed_under_load(
    make_cluster: ClusterFactory,
) -> None:
    """CORRECTNESS X11: no record fails, and new connections see the new certificate."""
    cluster, settings = await renewing(make_cluster)
    async with loaded(cluster, settings) as load:
        first = await serial_of(cluster)
        issue_all(cluster, Authority.load(cluster.directory / "tls"))

        async def renewed() -> bool:
            return await serial_of(cluster) != first

        await eventually(renewed, deadline_s=SETTLE_S)
        await cluster.kill_broker(1)  # its clients connect elsewhere, with the new certificates
        await load.progress()


async def lets_in(address: str, cafile: Path, shown: Path) -> bool:
    """Whether a member takes this certificate, whose key is beside it, and shows one of this authority."""
    context = create_ssl_context(
        cafile=str(cafile), certfile=str(shown), keyfile=str(shown.with_suffix(".key"))
    )
    context.set_alpn_protocols(["h2"])
    host, port = address.split(":")
    try:
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    except OSError:  # an SSLError is one
        return False
    try:
        return bool(await reader.read(1))  # a server of gRPC speaks first
    except OSError:
        return False
    finally:
        writer.transport.abort()


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_an_authority_replaces_another_in_two_steps_under_load(
    make_cluster: ClusterFactory, tmp_path: Path
) -> None:
    """CORRECTNESS X11: everyone trusts both, and shows certificates of the new one; then that one alone is
    trusted. No record fails."""
    cluster, settings = await renewing(make_cluster)
    addresses = [*cluster.bootstrap.split(","), cluster.controller_address(1)]
    for name in ("ca.pem", "admin.pem", "admin.key"):
        shutil.copy(cluster.directory / "tls" / name, tmp_path / name)
    old_ca, old_shown = tmp_path / "ca.pem", tmp_path / "admin.pem"
    new = Authority.create(tmp_path / "new", now(UTC), name="the new authority")
    new.issue("stranger", now(UTC), days=1)
    new_ca, new_shown = new.folder / "ca.pem", new.folder / "stranger.pem"

    async def all_let_in(cafile: Path, shown: Path) -> bool:
        return all([await lets_in(address, cafile, shown) for address in addresses])

    async def none_lets_in(cafile: Path, shown: Path) -> bool:
        return not any([await lets_in(address, cafile, shown) for address in addresses])

    async with loaded(cluster, settings) as load:
        assert await all_let_in(old_ca, old_shown) and await none_lets_in(old_ca, new_shown)
        put_in_place(cluster, "ca.pem", old_ca.read_bytes() + new_ca.read_bytes())
        await eventually(lambda: all_let_in(old_ca, new_shown), deadline_s=SETTLE_S)
        issue_all(cluster, new)
        await eventually(lambda: all_let_in(new_ca, new_shown), deadline_s=SETTLE_S)
        await load.progress()
        put_in_place(cluster, "ca.pem", new_ca.read_bytes())
        await eventually(lambda: none_lets_in(new_ca, old_shown), deadline_s=SETTLE_S)
        assert await all_let_in(new_ca, new_shown)
        await cluster.kill_broker(1)
        await load.progress()
        await cluster.start_broker(1)
        await load.progress()


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
