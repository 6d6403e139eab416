"""Admin requests that no client here sends, or not so: old versions, ids, doubles, and too much at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from strandline import Admin
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.apis import ApiWire
from strandline.config.limits import TOPICS_PER_REQUEST_MAX
from strandline.errors import ErrorCode
from strandline.local.cluster import LocalCluster
from tests.broker.kafka.support.kafka_wire import kafka_wire
from tests.broker.kafka.support.kio_codec import Values
from tests.conftest import ClusterFactory

UNKNOWN_ID = 100
TOPIC, BROKER, LOGGER = 2, 4, 8
TIMEOUT_MS = 20_000


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(brokers=1, kafka=True)


async def ask(cluster: LocalCluster, api: ApiWire[Any, Any], version: int, **values: Any) -> Values:
    async with kafka_wire(cluster.kafka_bootstrap) as wire:
        return await wire.ask(api.key, version, **values)


def codes(answer: Values) -> list[int]:
    (results,) = [value for value in answer.values() if isinstance(value, list)]
    return [each["error_code"] for each in results]


async def create(cluster: LocalCluster, *names: str) -> list[str]:
    """The ids of new topics with two partitions."""
    async with Admin(cluster.bootstrap) as admin:
        return [str(await admin.create_topic(name, 2)) for name in names]


async def topics(cluster: LocalCluster) -> Sequence[str]:
    async with Admin(cluster.bootstrap) as admin:
        return await admin.list_topics()


async def test_topics_are_deleted_by_their_ids(cluster: LocalCluster) -> None:
    first, second = await create(cluster, "by-id", "by-id-too")
    unknown = "f" * 32
    answer = await ask(
        cluster, apis.DELETE_TOPICS, 6, timeout_ms=TIMEOUT_MS,
        topics=[
            {"name": None, "topic_id": first},
            {"name": None, "topic_id": unknown},
            {"name": "by-id-too"},
            {"name": None},
        ],
    )  # fmt: skip
    found = [(each["name"], each["topic_id"], each["error_code"]) for each in answer["responses"]]
    assert found[:3] == [("by-id", first, 0), (None, unknown, UNKNOWN_ID), ("by-id-too", second, 0)]
    assert found[3][2] == ErrorCode.INVALID_REQUEST
    assert not {"by-id", "by-id-too"} & set(await topics(cluster))


async def test_the_oldest_versions_are_served(cluster: LocalCluster) -> None:
    """As Sarama sends DeleteTopics."""
    new = {"name": "old", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    created = await ask(cluster, apis.CREATE_TOPICS, 0, topics=[new], timeout_ms=TIMEOUT_MS)
    grown = await ask(
        cluster, apis.CREATE_PARTITIONS, 0, timeout_ms=TIMEOUT_MS, validate_only=False,
        topics=[{"name": "old", "count": 2, "assignments": None}],
    )  # fmt: skip
    deleted = await ask(cluster, apis.DELETE_TOPICS, 0, topic_names=["old"], timeout_ms=TIMEOUT_MS)
    assert codes(created) == codes(grown) == codes(deleted) == [0]


async def test_a_created_topic_is_described_in_the_answer(cluster: LocalCluster) -> None:
    """With -1, the client leaves its size to the broker: one partition, and no more replicas than brokers."""
    new = {
        "name": "shown", "num_partitions": -1, "replication_factor": -1,
        "configs": [{"name": "retention.ms", "value": "5"}],
    }  # fmt: skip
    answer = await ask(cluster, apis.CREATE_TOPICS, 7, topics=[new], timeout_ms=TIMEOUT_MS)
    (topic,) = answer["topics"]
    assert (topic["error_code"], topic["num_partitions"], topic["replication_factor"]) == (0, 1, 1)
    async with Admin(cluster.bootstrap) as admin:
        (found,) = await admin.describe_topics(["shown"])
    assert topic["topic_id"] == found.topic_id
    (own,) = [each for each in topic["configs"] if each["config_source"] == 1]
    assert (own["name"], own["value"]) == ("retention.ms", "5")


async def test_a_client_that_does_not_wait_has_its_topic_created(cluster: LocalCluster) -> None:
    """As with Kafka, it gets REQUEST_TIMED_OUT, which says that the creation goes on."""
    new = {"name": "unwaited", "num_partitions": 1, "replication_factor": 1}
    answer = await ask(cluster, apis.CREATE_TOPICS, 7, topics=[new], timeout_ms=0)
    assert codes(answer) == [ErrorCode.REQUEST_TIMED_OUT]
    assert "unwaited" in await topics(cluster)


@pytest.mark.parametrize(
    ("new", "code"),
    [
        ({"num_partitions": 2, "assignments": [{"partition_index": 0, "broker_ids": [1]}]}, 42),
        ({"assignments": [{"partition_index": 1, "broker_ids": [1]}]}, 39),
        ({"assignments": [{"partition_index": 0, "broker_ids": [9]}]}, 39),
        ({"num_partitions": 0}, 37),
        ({"num_partitions": 10_001}, 37),
        ({"replication_factor": 2}, 38),
        ({"replication_factor": 0}, 38),
        ({"configs": [{"name": "retention.ms", "value": None}]}, 40),
    ],
)
async def test_a_topic_that_cannot_be_is_refused(cluster: LocalCluster, new: Values, code: int) -> None:
    asked = {"name": "wrong", "num_partitions": -1, "replication_factor": -1, **new}
    answer = await ask(cluster, apis.CREATE_TOPICS, 7, topics=[asked], timeout_ms=TIMEOUT_MS)
    assert codes(answer) == [code] and answer["topics"][0]["error_message"]


async def test_what_is_named_twice_is_refused(cluster: LocalCluster) -> None:
    """As by Kafka: a topic has one answer, a resource with configs one for each time."""
    await create(cluster, "twice")
    new = {"name": "new-twice", "num_partitions": 1, "replication_factor": 1}
    growth = {"name": "twice", "count": 3, "assignments": None}
    resource = {"resource_type": TOPIC, "resource_name": "twice", "configs": []}
    answers = [
        await ask(cluster, apis.CREATE_TOPICS, 7, topics=[new] * 2, timeout_ms=TIMEOUT_MS),
        await ask(cluster, apis.DELETE_TOPICS, 5, topic_names=["twice"] * 2, timeout_ms=TIMEOUT_MS),
        await ask(
            cluster,
            apis.CREATE_PARTITIONS,
            3,
            topics=[growth] * 2,
            timeout_ms=TIMEOUT_MS,
            validate_only=False,
        ),
        await ask(cluster, apis.ALTER_CONFIGS, 2, resources=[resource] * 2, validate_only=False),
        await ask(cluster, apis.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource] * 2, validate_only=False),
    ]
    assert [codes(each) for each in answers] == [
        [ErrorCode.INVALID_REQUEST] * times for times in (1, 1, 1, 2, 2)
    ]


async def test_configs_of_what_has_none_here_are_refused(cluster: LocalCluster) -> None:
    wanted = [(BROKER, "2"), (BROKER, "x"), (LOGGER, "1"), (TOPIC, "never"), (TOPIC, "no/name")]
    resources = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": None} for kind, name in wanted
    ]
    answer = await ask(cluster, apis.DESCRIBE_CONFIGS, 4, resources=resources)
    assert codes(answer) == [42, 42, 42, 3, 17]


async def test_configs_by_name_and_of_no_broker(cluster: LocalCluster) -> None:
    """An empty name stands for what all brokers have in common: there is nothing such."""
    await create(cluster, "named")
    answer = await ask(
        cluster, apis.DESCRIBE_CONFIGS, 4, include_synonyms=False, include_documentation=True,
        resources=[
            {"resource_type": TOPIC, "resource_name": "named", "configuration_keys": ["segment.ms", "x"]},
            {"resource_type": BROKER, "resource_name": "", "configuration_keys": None},
        ],
    )  # fmt: skip
    named, common = answer["results"]
    (config,) = named["configs"]
    assert (config["name"], config["value"], config["synonyms"]) == ("segment.ms", "604800000", [])
    assert config["documentation"] and common["error_code"] == 0 and not common["configs"]


async def test_one_request_has_a_bound_of_topics(cluster: LocalCluster) -> None:
    """CORRECTNESS X6."""
    names = [f"many-{number}" for number in range(TOPICS_PER_REQUEST_MAX + 1)]
    resources = [
        {"resource_type": TOPIC, "resource_name": name, "configuration_keys": None} for name in names
    ]
    answer = await ask(cluster, apis.DESCRIBE_CONFIGS, 4, resources=resources)
    assert set(codes(answer)) == {ErrorCode.INVALID_REQUEST}
    deleted = await ask(cluster, apis.DELETE_TOPICS, 5, topic_names=names, timeout_ms=TIMEOUT_MS)
    assert set(codes(deleted)) == {ErrorCode.INVALID_REQUEST}
