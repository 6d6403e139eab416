"""A client that speaks another protocol than a port hears so at once, on every kind of port
(docs/correctness.md, X12)."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final

import pytest

from strandline import Admin
from strandline.errors import AuthenticationFailed
from strandline.local.cluster import LocalCluster
from strandline.local.ports import LOOPBACK, free_ports
from tests.conftest import ClusterFactory
from tests.tls_files import TestAuthority

SAID_S_MAX: Final = 8.0
"""A client knows that it is refused before a request times out, which takes ten seconds."""
API_VERSIONS: Final = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
"""A request of Kafka's protocol."""


class Stage:
    def __init__(self, cluster: LocalCluster, authority: TestAuthority, ports: list[int]) -> None:
        self.cluster = cluster
        self.encrypted = {"security_protocol": "SSL", **authority.issue("alice").settings}
        self.trusting = ssl.create_default_context(cafile=str(authority.cafile))
        self.grpc, self.kafka = ports


@pytest.fixture(scope="module")
async def stage(make_module_cluster: ClusterFactory, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A broker whose first ports are encrypted, and whose second ports, of these numbers, are not."""
    authority = await asyncio.to_thread(TestAuthority, tmp_path_factory.mktemp("tls"))
    ports = free_ports(2)
    settings = {
        **(await asyncio.to_thread(authority.issue, "member")).settings,
        "external_port": ports[0],
        "external_security_protocol": "PLAINTEXT",
        "kafka_security_protocol": "SSL",
        "kafka_external_port": ports[1],
        "kafka_external_host": LOOPBACK,
        "kafka_external_security_protocol": "PLAINTEXT",
    }
    cluster = await make_module_cluster(brokers=1, broker_settings=settings, kafka=True)
    return Stage(cluster, authority, ports)


async def said(address: str, **settings: Any) -> str:
    """What a client of strandline hears there."""
    async with Admin(address, **settings) as admin, asyncio.timeout(SAID_S_MAX):
        with pytest.raises(AuthenticationFailed) as refused:
            await admin.list_topics()
    return refused.value.message


async def test_a_port_for_clients_of_strandline(stage: Stage) -> None:
    """CORRECTNESS X12."""
    assert "this port speaks TLS" in await said(stage.cluster.bootstrap)
    assert "this port speaks plaintext" in await said(f"{LOOPBACK}:{stage.grpc}", **stage.encrypted)


async def test_a_client_of_strandline_at_an_encrypted_port_for_kafka_clients(stage: Stage) -> None:
    """CORRECTNESS X12."""
    address = stage.cluster.kafka_bootstrap
    assert "this port speaks TLS" in await said(address)
    assert "but not gRPC: it may be one for Kafka clients" in await said(address, **stage.encrypted)


async def test_a_kafka_client_is_disconnected(stage: Stage) -> None:
    """CORRECTNESS X12: Kafka's protocol has no answer for it."""
    _, _, port = stage.cluster.kafka_bootstrap.rpartition(":")
    async with asyncio.timeout(SAID_S_MAX):
        reader, writer = await asyncio.open_connection(LOOPBACK, int(port))
        writer.write(API_VERSIONS)
        assert not (await reader.read())[5:], "an alert at most"
        writer.close()
    async with asyncio.timeout(SAID_S_MAX):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(LOOPBACK, stage.kafka, ssl=stage.trusting)
