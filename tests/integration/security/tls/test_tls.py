"""A cluster whose connections are all encrypted (docs/correctness.md, X13)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from strandline import Admin, Consumer, Producer
from strandline.errors import AuthenticationFailed, TopicAuthorizationFailed
from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.security.support.certified import certified
from tests.integration.support.harness import FAULT_SETTINGS
from tests.scraping import Prometheus, ask, scrape
from tests.tls_files import Files, TestAuthority

SAID_S_MAX = 8.0
"""A client knows that it is refused before a request times out, which takes ten seconds."""
RECORDS = 20


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(brokers=3, secure=True, broker_settings=FAULT_SETTINGS)


async def test_producer_consumer_and_admin_work_with_certificates(cluster: LocalCluster) -> None:
    """CORRECTNESS X13: by every hop, replication among them."""
    settings = cluster.client_settings
    async with Admin(cluster.bootstrap, **settings) as admin:
        await admin.create_topic("tides", replication_factor=3, config={"min.insync.replicas": "3"})
    async with Producer(cluster.bootstrap, **settings) as producer:
        sent = [await producer.send("tides", f"{number}".encode()) for number in range(RECORDS)]
        for each in sent:
            await each
    async with Consumer(
        cluster.bootstrap, group_id="sailors", offset_reset="earliest", **settings
    ) as consumer:
        consumer.subscribe(["tides"])
        found = [await anext(aiter(consumer)) for _ in range(RECORDS)]
    assert [record.value for record in found] == [f"{number}".encode() for number in range(RECORDS)]


async def test_acls_decide_by_the_certificate(cluster: LocalCluster) -> None:
    """CORRECTNESS X13: another certificate of the same authority may nothing until an ACL says so."""
    async with Admin(cluster.bootstrap, **certified(cluster, "alice")) as admin:
        with pytest.raises(TopicAuthorizationFailed):
            await admin.create_topic("mine")


async def test_metrics_are_for_those_who_show_the_token(cluster: LocalCluster) -> None:
    """CORRECTNESS X13: also those of a controller."""
    by = Prometheus.of(cluster)
    for port in (cluster.metrics_port(1), cluster.controller_metrics_port(1)):
        assert port is not None
        assert (await scrape(port, by)).has("strandline_tls_reload_failures_total")
        assert (await ask(port, tls=by.tls))[0] == 401
        assert (await ask(port))[0] == 0


async def refused(cluster: LocalCluster, why: str, **settings: Any) -> None:
    async with asyncio.timeout(SAID_S_MAX):
        with pytest.raises(AuthenticationFailed, match=why):
            async with Producer(cluster.bootstrap, **settings):
                pass
    async with asyncio.timeout(SAID_S_MAX), Admin(cluster.bootstrap, **settings) as admin:
        with pytest.raises(AuthenticationFailed, match=why):
            await admin.describe_topics()


async def test_a_plaintext_client_is_told_that_the_ports_speak_tls(cluster: LocalCluster) -> None:
    """CORRECTNESS X12, X13."""
    await refused(cluster, "this port speaks TLS")


async def test_a_client_without_or_with_a_foreign_certificate_is_refused(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """CORRECTNESS X12, X13."""
    cafile = cluster.client_settings["ssl_cafile"]
    await refused(cluster, "demands a certificate", security_protocol="SSL", ssl_cafile=cafile)
    eve = TestAuthority(tmp_path).issue("eve", trusts=Path(cafile))
    await refused(cluster, "its authority is unknown there", **eve.settings)


async def test_a_client_that_does_not_know_the_authority_refuses_the_brokers(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """CORRECTNESS X12, X13."""
    alice: Files = TestAuthority(tmp_path).issue("alice")
    await refused(cluster, "the server's certificate is refused", **alice.settings)
