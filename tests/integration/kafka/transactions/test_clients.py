"""Transactions by unmodified clients of three projects, over both versions of the protocol."""

from __future__ import annotations

import pytest

from strandline import Admin
from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.kafka.support.isolated_reads import READERS, UNCOMMITTED, read, shows
from tests.integration.kafka.support.transactors import (
    AIOKAFKA,
    CONFLUENT,
    KINDS,
    Fenced,
    ToAbort,
    Transactor,
    transactor,
)
from tests.integration.support.harness import FAULT_SETTINGS

PARTITIONS = 3
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
async def local(make_module_cluster: ClusterFactory) -> LocalCluster:
    settings = {**FAULT_SETTINGS, "transaction_state_topic_partitions": 5}
    return await make_module_cluster(brokers=3, broker_settings=settings, kafka=True)


async def created(local: LocalCluster, name: str) -> str:
    async with Admin(local.bootstrap) as admin:
        await admin.create_topic(name, partitions=PARTITIONS, replication_factor=3)
    return name


async def write(producer: Transactor, topic: str, value: bytes) -> None:
    """Begins a transaction with one record in each partition."""
    await producer.begin()
    for partition in range(PARTITIONS):
        await producer.send(topic, partition, value)


@EACH_KIND
async def test_what_is_committed_is_seen_and_what_is_aborted_is_not(local: LocalCluster, kind: str) -> None:
    """KIP-98: by the consumers of all clients; those that ask for it see all."""
    bootstrap, topic = local.kafka_bootstrap, await created(local, f"orders-{kind}")
    async with transactor(kind, bootstrap, f"payments-{kind}") as producer:
        for value in (b"first", b"aborted", b"last"):
            await write(producer, topic, value)
            await (producer.abort() if value == b"aborted" else producer.commit())
    for reader in READERS:
        await shows(bootstrap, topic, [[b"first", b"last"]] * PARTITIONS, reader)
        found = await read(reader, bootstrap, topic, PARTITIONS, UNCOMMITTED)
        assert found == [[b"first", b"aborted", b"last"]] * PARTITIONS


@EACH_KIND
async def test_an_open_transaction_hides_what_comes_after_it(local: LocalCluster, kind: str) -> None:
    """The last stable offset: even a record without a transaction waits behind an open one."""
    bootstrap, topic = local.kafka_bootstrap, await created(local, f"open-{kind}")
    async with (
        transactor(kind, bootstrap, f"slow-{kind}") as slow,
        transactor(CONFLUENT, bootstrap, f"quick-{kind}") as quick,
    ):
        await write(slow, topic, b"slow")
        await write(quick, topic, b"quick")
        await quick.commit()
        for reader in READERS:
            assert await read(reader, bootstrap, topic, PARTITIONS) == [[]] * PARTITIONS
        await slow.commit()
    await shows(bootstrap, topic, [[b"slow", b"quick"]] * PARTITIONS)


@EACH_KIND
async def test_a_twin_fences_the_producer_before_it(local: LocalCluster, kind: str) -> None:
    """KIP-98: what the first had open is aborted, and it can commit nothing more."""
    bootstrap, topic = local.kafka_bootstrap, await created(local, f"twins-{kind}")
    async with transactor(kind, bootstrap, f"twin-{kind}") as first:
        await write(first, topic, b"first")
        async with transactor(kind, bootstrap, f"twin-{kind}") as second:
            with pytest.raises(Fenced):
                await first.commit()
            await write(second, topic, b"second")
            await second.commit()
    await shows(bootstrap, topic, [[b"second"]] * PARTITIONS)


@EACH_KIND
async def test_nothing_is_committed_after_the_timeout(local: LocalCluster, kind: str) -> None:
    """KIP-98: the coordinator aborts, and fences the producer; by the second protocol it may go on."""
    bootstrap, topic = local.kafka_bootstrap, await created(local, f"late-{kind}")
    async with (
        transactor(kind, bootstrap, f"late-{kind}", timeout_ms=1_000) as late,
        transactor(AIOKAFKA, bootstrap, f"after-{kind}") as after,
    ):
        await write(late, topic, b"late")
        await write(after, topic, b"after")
        await after.commit()
        await shows(bootstrap, topic, [[b"after"]] * PARTITIONS)
        with pytest.raises((Fenced, ToAbort)):
            await late.commit()
    assert await read(AIOKAFKA, bootstrap, topic, PARTITIONS) == [[b"after"]] * PARTITIONS
