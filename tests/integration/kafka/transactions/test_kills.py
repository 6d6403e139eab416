"""Transactions of unmodified clients over the death of brokers."""

from __future__ import annotations

import pytest

from strandline import Admin
from strandline.broker.coordinators.placement import partition_of
from strandline.ids import TRANSACTIONS_TOPIC, BrokerId
from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.kafka.support.isolated_reads import shows
from tests.integration.kafka.support.transactors import AIOKAFKA, CONFLUENT, ToAbort, Transactor, transactor
from tests.integration.support.harness import FAULT_SETTINGS

pytestmark = pytest.mark.slow

PARTITIONS, TRANSACTIONS = 3, 24
KILL_AT, START_AT = 8, 16
TRIES_MAX = 20
STATE_PARTITIONS = 5
KINDS = (AIOKAFKA, CONFLUENT)
"""kafka-python leaves sockets open when a broker dies."""


@pytest.fixture(scope="module")
async def local(make_module_cluster: ClusterFactory) -> LocalCluster:
    settings = {**FAULT_SETTINGS, "transaction_state_topic_partitions": STATE_PARTITIONS}
    return await make_module_cluster(brokers=3, broker_settings=settings, kafka=True)


async def leader(local: LocalCluster, topic: str, partition: int) -> BrokerId:
    async with Admin(local.bootstrap) as admin:
        (found,) = (await admin.metadata([topic])).topics
    return next(BrokerId(each.leader) for each in found.partitions if each.partition == partition)


async def committed_over(
    local: LocalCluster, producer: Transactor, topic: str, victim: BrokerId
) -> list[bytes]:
    """Commits transactions one after another, and aborts each third; the victim dies within one, and is back
    for a later one. Returns what was committed. What cannot be committed is aborted and done again under
    another name."""
    committed = list[bytes]()
    for number in range(TRANSACTIONS):
        for attempt in range(TRIES_MAX):
            value = f"{number}-{attempt}".encode()
            try:
                await producer.begin()
                for partition in range(PARTITIONS):
                    await producer.send(topic, partition, value)
                    if (number, attempt, partition) == (KILL_AT, 0, 1):
                        await local.kill_broker(victim)
                if number % 3:
                    await producer.commit()
                    committed.append(value)
                else:
                    await producer.abort()
                break
            except ToAbort:
                await producer.abort()
        else:
            raise AssertionError(f"transaction {number} failed {TRIES_MAX} times")
        if number == START_AT:
            await local.start_broker(victim)
    return committed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("role", ["leader", "coordinator"])
async def test_a_killed_broker_takes_no_transaction_apart(local: LocalCluster, kind: str, role: str) -> None:
    """Nothing that was committed is lost or there twice, and nothing that was aborted is seen."""
    name = f"{role}-{kind}"
    async with Admin(local.bootstrap) as admin:
        await admin.create_topic(name, partitions=PARTITIONS, replication_factor=3)
    async with transactor(kind, local.kafka_bootstrap, name) as producer:
        of_state = (TRANSACTIONS_TOPIC, partition_of(name, STATE_PARTITIONS))
        victim = await leader(local, *((name, 0) if role == "leader" else of_state))
        committed = await committed_over(local, producer, name, victim)
    for reader in KINDS:
        await shows(local.kafka_bootstrap, name, [committed] * PARTITIONS, reader)
