"""Quotas tell clients apart by the ids that they give, on both ports."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import Producer as KafkaProducer

from strandline import Admin, Producer
from strandline.local.cluster import LocalCluster
from strandline.security.quotas.model import Quota, QuotaAlteration, QuotaEntity
from tests.conftest import ClusterFactory
from tests.scraping import scrape

RATE = 10_000
RECORD = b"x" * 20_000
"""Two seconds' worth."""
THROTTLED = "strandline_throttled_seconds_total"


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    cluster = await make_module_cluster(brokers=1, kafka=True)
    entity = QuotaEntity(None, "noisy")
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic("topic")
        await admin.alter_client_quotas([QuotaAlteration(entity, {Quota.PRODUCER_BYTE_RATE: RATE})])
    return cluster


async def throttled_s(cluster: LocalCluster) -> float:
    port = cluster.metrics_port(1)
    assert port is not None
    found = await scrape(port)
    return found(THROTTLED, quota=str(Quota.PRODUCER_BYTE_RATE))


async def by_grpc(cluster: LocalCluster, client_id: str) -> None:
    async with Producer(cluster.bootstrap, client_id=client_id) as producer:
        await (await producer.send("topic", RECORD))


async def by_kafka(cluster: LocalCluster, client_id: str) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": cluster.kafka_bootstrap, "client.id": client_id}
    producer = KafkaProducer(settings)
    producer.produce("topic", RECORD)
    await asyncio.to_thread(producer.flush)


@pytest.mark.parametrize("write", [by_grpc, by_kafka])
async def test_only_the_client_with_the_id_is_delayed(cluster: LocalCluster, write: Any) -> None:
    before = await throttled_s(cluster)
    await write(cluster, "quiet")
    assert await throttled_s(cluster) == before
    await write(cluster, "noisy")
    assert await throttled_s(cluster) > before
