"""Unmodified clients find their coordinators and are fenced by twins, on real brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import ProducerFenced
from confluent_kafka import Producer as ConfluentProducer

from strandline import Admin
from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.support.harness import FAULT_SETTINGS

INIT_S = 30.0


@pytest.fixture(scope="module")
async def local(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(brokers=3, broker_settings=FAULT_SETTINGS, kafka=True)


@asynccontextmanager
async def producing(local: LocalCluster, transactional_id: str) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(bootstrap_servers=local.kafka_bootstrap, transactional_id=transactional_id)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def test_a_twin_fences_the_producer_before_it(local: LocalCluster) -> None:
    """KIP-98, by aiokafka, which speaks the first protocol."""
    async with Admin(local.bootstrap) as admin:
        await admin.create_topic("orders", partitions=3, replication_factor=3)
    async with producing(local, "payments") as first, producing(local, "payments"):
        await first.begin_transaction()
        with pytest.raises(ProducerFenced):
            await first.send_and_wait("orders", b"1")


def test_librdkafka_begins_and_ends_a_transaction_of_nothing(local: LocalCluster) -> None:
    producer = ConfluentProducer({"bootstrap.servers": local.kafka_bootstrap, "transactional.id": "nothing"})
    producer.init_transactions(INIT_S)
    producer.begin_transaction()
    producer.commit_transaction(INIT_S)
    producer.begin_transaction()
    producer.abort_transaction(INIT_S)
