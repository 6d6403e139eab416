"""Quotas tell clients apart by the ids that they give, on both ports."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer as KafkaProducer

from strandline import Admin, Producer
from strandline.ids import TopicPartition
from strandline.local.cluster import LocalCluster
from strandline.security.quotas.model import Quota, QuotaAlteration, QuotaEntity
from strandline.vocabulary.log import LATEST, ListedOffset
from tests.conftest import ClusterFactory
from tests.scraping import scraped
from tests.waiting import eventually

RATE = 10_000
RECORD = b"x" * 20_000
"""Two seconds' worth."""
WRITTEN, WORK = Quota.PRODUCER_BYTE_RATE, Quota.REQUEST_PERCENTAGE
PERCENT = 0.01
"""Of the broker's time: less than any call takes."""
MESSAGES_IN = "kafka_server_brokertopicmetrics_messagesin_total"
THROTTLED = "strandline_throttled_seconds_total"


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    settings = {"quota_delay_ms_max": 200}
    cluster = await make_module_cluster(brokers=1, broker_settings=settings, kafka=True)
    limits: dict[str, dict[Quota, float | None]] = {"noisy": {WRITTEN: RATE}, "busy": {WORK: PERCENT}}
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic("topic")
        await admin.alter_client_quotas(
            [QuotaAlteration(QuotaEntity(None, name), limit) for name, limit in limits.items()]
        )
    await eventually(partial(_delays, cluster), what="the broker knows the quota")
    return cluster


async def _delays(cluster: LocalCluster) -> bool:
    before = await throttled_s(cluster)
    await by_grpc(cluster, "noisy")
    return await throttled_s(cluster) > before


async def throttled_s(cluster: LocalCluster, quota: Quota = WRITTEN) -> float:
    """The delays so far, from a reading after the last record: the broker may give out an older one."""
    name = TopicPartition("topic", 0)
    async with Admin(cluster.bootstrap) as admin:
        found_at = (await admin.list_offsets({name: LATEST}))[name]
    assert isinstance(found_at, ListedOffset)
    port = cluster.metrics_port(1)
    assert port is not None
    found = await scraped(port, lambda scrape: scrape(MESSAGES_IN, topic="topic") == found_at.offset)
    return found(THROTTLED, quota=str(quota))


async def by_grpc(cluster: LocalCluster, client_id: str) -> None:
    async with Producer(cluster.bootstrap, client_id=client_id) as producer:
        await (await producer.send("topic", RECORD))


async def by_kafka(cluster: LocalCluster, client_id: str) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": cluster.kafka_bootstrap, "client.id": client_id}
    producer = KafkaProducer(settings)
    errors: list[Any] = []
    producer.produce("topic", RECORD, on_delivery=lambda error, _: errors.append(error))
    await asyncio.to_thread(producer.flush)
    assert errors == [None]


async def by_call(cluster: LocalCluster, client_id: str) -> None:
    async with Admin(cluster.bootstrap, client_id=client_id) as admin:
        await admin.list_topics()


@pytest.mark.parametrize("work", [by_call, by_grpc])
async def test_the_time_of_calls_and_streams_counts_over_grpc(cluster: LocalCluster, work: Any) -> None:
    """For the client with the id alone."""
    before = await throttled_s(cluster, WORK)
    await work(cluster, "quiet")
    assert await throttled_s(cluster, WORK) == before

    async def delayed() -> bool:
        await work(cluster, "busy")
        return await throttled_s(cluster, WORK) > before

    await eventually(delayed, what="the client is delayed for its calls")


@pytest.mark.parametrize("write", [by_grpc, by_kafka])
async def test_only_the_client_with_the_id_is_delayed(cluster: LocalCluster, write: Any) -> None:
    before = await throttled_s(cluster)
    await write(cluster, "quiet")
    assert await throttled_s(cluster) == before
    await write(cluster, "noisy")
    assert await throttled_s(cluster) > before
