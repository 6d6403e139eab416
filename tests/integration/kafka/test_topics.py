"""Kafka clients create topics: by request, and by asking for the metadata of one that does not exist."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kafka import KafkaAdminClient
from kafka.admin import NewPartitions as PythonNewPartitions
from kafka.admin import NewTopic as PythonNewTopic

from strandline import Admin
from strandline.client.admin.topics import TopicDescription
from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.kafka.support.kcat import kcat, needs_kcat
from tests.integration.support.harness import FAULT_SETTINGS, SESSION_TIMEOUT_MS
from tests.waiting import eventually

WAIT_S_MAX = 30


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(brokers=3, broker_settings=FAULT_SETTINGS, kafka=True)


@pytest.fixture(scope="module")
def confluent(cluster: LocalCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.kafka_bootstrap})


async def described(cluster: LocalCluster, topic: str) -> TopicDescription:
    async with Admin(cluster.bootstrap) as admin:
        (found,) = await admin.describe_topics([topic])
    return found


def size(topic: TopicDescription) -> tuple[int, int]:
    return len(topic.partitions), len(topic.partitions[0].replicas)


async def grew(cluster: LocalCluster, topic: str, expected: tuple[int, int]) -> TopicDescription:
    """The description, once the broker that is asked has read of the new partitions."""

    async def found() -> TopicDescription | None:
        now = await described(cluster, topic)
        return now if size(now) == expected else None

    grown = await eventually(found)
    assert grown is not None
    return grown


async def outcome(future: Future[Any]) -> KafkaError | None:
    """The error of one topic in the answer to confluent-kafka's request."""
    try:
        await asyncio.wrap_future(future)
    except KafkaException as refused:
        error: KafkaError = refused.args[0]
        return error
    return None


async def outcomes(futures: dict[str, Future[Any]]) -> dict[str, int]:
    found = {name: await outcome(future) for name, future in futures.items()}
    return {name: 0 if error is None else error.code() for name, error in found.items()}


async def test_confluent_kafka_creates_topics_and_learns_what_became_of_each(
    cluster: LocalCluster, confluent: AdminClient
) -> None:
    """The answer comes once each new partition has a leader. An error in one topic does not affect others."""
    found = await outcomes(
        confluent.create_topics(
            [
                NewTopic("sized", 3, 2, config={"retention.ms": "86400000", "compression.type": "producer"}),
                NewTopic("placed", 2, replica_assignment=[[1, 2], [3, 1]]),
                NewTopic("by-default"),
                NewTopic("__own", 1, 1),
                NewTopic("bad config", 1, 1),
                NewTopic("compressed", 1, 1, config={"compression.type": "zstd"}),
                NewTopic("too-many-replicas", 1, 4),
            ]
        )
    )
    assert found == {
        "sized": 0,
        "placed": 0,
        "by-default": 0,
        "__own": KafkaError.TOPIC_EXCEPTION,
        "bad config": KafkaError.TOPIC_EXCEPTION,
        "compressed": KafkaError.INVALID_CONFIG,
        "too-many-replicas": KafkaError.INVALID_REPLICATION_FACTOR,
    }
    sized = await described(cluster, "sized")
    assert size(sized) == (3, 2) and sized.config == {"retention.ms": "86400000"}
    assert [each.replicas for each in (await described(cluster, "placed")).partitions] == [(1, 2), (3, 1)]
    assert size(await described(cluster, "by-default")) == (1, 3)
    again = confluent.create_topics([NewTopic("sized", 3, 2)])
    assert await outcomes(again) == {"sized": KafkaError.TOPIC_ALREADY_EXISTS}


async def test_a_refusal_has_a_reason(confluent: AdminClient) -> None:
    (future,) = confluent.create_topics(
        [NewTopic("stamped", 1, 1, config={"message.timestamp.type": "LogAppendTime"})]
    ).values()
    error = await outcome(future)
    assert error is not None and error.code() == KafkaError.INVALID_CONFIG
    assert "Records keep the time that their producer gave." in error.str()


async def test_a_request_that_only_validates_creates_nothing(
    cluster: LocalCluster, confluent: AdminClient
) -> None:
    asked = [NewTopic("imagined", 1, 1), NewTopic("impossible", 1, 9)]
    found = await outcomes(confluent.create_topics(asked, validate_only=True))
    assert found == {"imagined": 0, "impossible": KafkaError.INVALID_REPLICATION_FACTOR}
    async with Admin(cluster.bootstrap) as admin:
        assert "imagined" not in await admin.list_topics()


async def test_kafka_python_creates_a_topic(cluster: LocalCluster) -> None:
    def create() -> None:
        admin = KafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap)
        try:
            admin.create_topics([PythonNewTopic("python", 2, 3)])
        finally:
            admin.close()

    await asyncio.to_thread(create)
    assert size(await described(cluster, "python")) == (2, 3)


async def test_aiokafka_creates_a_topic(cluster: LocalCluster) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap)
    await admin.start()
    try:
        await admin.create_topics([AioNewTopic("aio", 2, 3)])
    finally:
        await admin.close()
    assert size(await described(cluster, "aio")) == (2, 3)


async def test_a_producer_has_its_topic_created(cluster: LocalCluster) -> None:
    """With the settings' numbers of partitions and replicas: one, and three."""
    errors: list[KafkaError | None] = []
    producer = ConfluentProducer({"bootstrap.servers": cluster.kafka_bootstrap})
    producer.produce("on-demand", b"first", on_delivery=lambda error, _: errors.append(error))
    assert await asyncio.to_thread(producer.flush, WAIT_S_MAX) == 0
    assert errors == [None]
    assert size(await described(cluster, "on-demand")) == (1, 3)


async def test_a_drained_broker_gets_no_replica_of_a_topic_on_demand(cluster: LocalCluster) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.drain_broker(3, replicas=True)
        try:
            producer = ConfluentProducer({"bootstrap.servers": cluster.kafka_bootstrap})
            producer.produce("while-drained", b"first")
            assert await asyncio.to_thread(producer.flush, WAIT_S_MAX) == 0
            found = await described(cluster, "while-drained")
        finally:
            await admin.undrain_broker(3)
    assert set(found.partitions[0].replicas) == {1, 2}


@needs_kcat
async def test_kcat_has_its_topic_created(cluster: LocalCluster) -> None:
    of_topic = ("-b", cluster.kafka_bootstrap, "-t", "by-kcat")
    await kcat(*of_topic, "-P", given="one\ntwo\n", within_s=WAIT_S_MAX)
    read = await kcat(*of_topic, "-C", "-e", "-q", within_s=WAIT_S_MAX)
    assert read.splitlines() == ["one", "two"]


async def test_of_two_clients_that_create_one_topic_one_is_refused(confluent: AdminClient) -> None:
    asked = [confluent.create_topics([NewTopic("contested", 1, 3)])["contested"] for _ in range(2)]
    errors = [await outcome(future) for future in asked]
    codes = sorted(0 if error is None else error.code() for error in errors)
    assert codes == [0, KafkaError.TOPIC_ALREADY_EXISTS]


async def test_many_producers_have_one_topic_created_once(cluster: LocalCluster) -> None:
    """Their brokers ask for the same creation at the same time."""
    errors: list[KafkaError | None] = []
    producers = [ConfluentProducer({"bootstrap.servers": cluster.kafka_bootstrap}) for _ in range(6)]
    for producer in producers:
        producer.produce("crowded", b"mine", on_delivery=lambda error, _: errors.append(error))
    async with asyncio.TaskGroup() as tasks:
        for each in producers:
            tasks.create_task(asyncio.to_thread(each.flush, WAIT_S_MAX))
    assert errors == [None] * 6
    assert size(await described(cluster, "crowded")) == (1, 3)


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_controller_that_dies_while_it_creates_a_topic(make_cluster: ClusterFactory) -> None:
    """CORRECTNESS E9: the client learns that the outcome is not known. When a controller is there again, the
    topic exists, or the next attempt creates it."""
    short = {"zookeeper_session_timeout_ms": SESSION_TIMEOUT_MS}
    cluster = await make_cluster(
        brokers=1, broker_settings=FAULT_SETTINGS, controller_settings=short, kafka=True
    )
    (controller,) = cluster.controller_ids
    confluent = AdminClient({"bootstrap.servers": cluster.kafka_bootstrap})
    for point, code in (("before", 0), ("written", KafkaError.TOPIC_ALREADY_EXISTS)):
        await cluster.kill_controller(controller)
        await cluster.start_controller(controller, crash_points=f"controller.create.{point}")
        error = await outcome(confluent.create_topics([NewTopic(point, 1, 1)])[point])
        assert error is not None and error.code() == KafkaError.REQUEST_TIMED_OUT
        await eventually(lambda: not _controller_runs(cluster), deadline_s=WAIT_S_MAX)
        await cluster.start_controller(controller, crash_points="")
        again = await outcome(confluent.create_topics([NewTopic(point, 1, 1)])[point])
        assert (0 if again is None else again.code()) == code
        assert size(await described(cluster, point)) == (1, 1)


def _controller_runs(cluster: LocalCluster) -> bool:
    return any(member.alive for member in cluster.members() if member.kind == "controller")


# --- deletion and growth ----------------------------------------------------------------------


async def test_confluent_kafka_deletes_topics(cluster: LocalCluster, confluent: AdminClient) -> None:
    """The answer comes when the names are free: they can be created at once."""
    new = [NewTopic("doomed", 2, 3)]
    assert await outcomes(confluent.create_topics(new)) == {"doomed": 0}
    assert await outcomes(confluent.delete_topics(["doomed", "never", "__consumer_offsets"])) == {
        "doomed": 0,
        "never": KafkaError.UNKNOWN_TOPIC_OR_PART,
        "__consumer_offsets": KafkaError.TOPIC_EXCEPTION,
    }
    assert await outcomes(confluent.create_topics(new)) == {"doomed": 0}


async def test_confluent_kafka_adds_partitions(cluster: LocalCluster, confluent: AdminClient) -> None:
    await outcomes(confluent.create_topics([NewTopic("growing", 2, 2), NewTopic("placing", 1, 1)]))
    placed = NewPartitions("placing", 3, [[2], [3]])
    asked = [NewPartitions("growing", 5), placed, NewPartitions("never", 2)]
    validated = await outcomes(confluent.create_partitions(asked, validate_only=True))
    assert size(await described(cluster, "growing")) == (2, 2)
    added = await outcomes(confluent.create_partitions(asked))
    assert validated == added == {"growing": 0, "placing": 0, "never": KafkaError.UNKNOWN_TOPIC_OR_PART}
    await grew(cluster, "growing", (5, 2))
    placed_partitions = (await grew(cluster, "placing", (3, 1))).partitions
    assert [each.replicas for each in placed_partitions[1:]] == [(2,), (3,)]
    for total in (5, 4):
        refused = await outcomes(confluent.create_partitions([NewPartitions("growing", total)]))
        assert refused == {"growing": KafkaError.INVALID_PARTITIONS}, total


async def test_kafka_python_adds_partitions_and_deletes(cluster: LocalCluster) -> None:
    def run() -> None:
        admin = KafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap)
        try:
            admin.create_topics([PythonNewTopic("python-2", 1, 1)])
            admin.create_partitions({"python-2": PythonNewPartitions(3)})
            admin.delete_topics(["python-2"])
        finally:
            admin.close()

    await asyncio.to_thread(run)
    async with Admin(cluster.bootstrap) as admin:
        assert "python-2" not in await admin.list_topics()


async def test_aiokafka_adds_partitions_and_deletes(cluster: LocalCluster) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap)
    await admin.start()
    try:
        await admin.create_topics([AioNewTopic("aio-2", 1, 1)])
        await admin.create_partitions({"aio-2": AioNewPartitions(3)})
        await grew(cluster, "aio-2", (3, 1))
        await admin.delete_topics(["aio-2"])
    finally:
        await admin.close()
    async with Admin(cluster.bootstrap) as own:
        assert "aio-2" not in await own.list_topics()
