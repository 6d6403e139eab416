"""Topics and their configs, as Kafka clients ask for them: what becomes of each request on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from strandline.broker.kafka.configs.topic_names import BROKER_THROTTLES
from strandline.broker.kafka.errors import KafkaCode
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.admin.configs import (
    APPEND,
    BROKER,
    DEFAULT_VALUE,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    TOPIC_OWN,
    AlterConfigsRequest,
    ConfigChange,
    DescribeConfigsRequest,
    DescribedConfig,
    GivenConfig,
    IncrementalAlterConfigsRequest,
    Resource,
    ResourceChanges,
    ResourceConfigs,
    ResourceOutcome,
    WantedConfigs,
)
from strandline.broker.kafka.wire.admin.topic_changes import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    GivenReplicas,
    TopicGrowth,
    UnwantedTopic,
    WantedTopic,
)
from strandline.client.admin.topics import TopicDescription
from strandline.config.limits import PARTITIONS_PER_TOPIC_MAX, TOPICS_PER_REQUEST_MAX
from strandline.errors import ErrorCode
from strandline.testing import SimulatedCluster
from tests.broker.kafka.support.handlers import KafkaHandlers, kafka_brokers
from tests.virtual_time import on_virtual_time

TIMEOUT_MS: Final = 20_000
LOGGER: Final = 8
UNKNOWN_TOPIC = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
INVALID_REQUEST = int(ErrorCode.INVALID_REQUEST)
INVALID_CONFIG = int(ErrorCode.INVALID_CONFIG)
INVALID_TOPIC = int(ErrorCode.INVALID_TOPIC_EXCEPTION)


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    """Three brokers."""
    with kafka_brokers(3) as cluster:
        yield cluster


class Client(KafkaHandlers):
    async def create(self, *topics: WantedTopic, timeout_ms: int = TIMEOUT_MS, **more: Any) -> Any:
        return (await self.ask(apis.CREATE_TOPICS, CreateTopicsRequest(topics, timeout_ms, **more))).topics

    async def delete(self, *topics: UnwantedTopic) -> Any:
        return (await self.ask(apis.DELETE_TOPICS, DeleteTopicsRequest(topics, TIMEOUT_MS))).topics

    async def grow(self, *topics: TopicGrowth, validate_only: bool = False) -> Mapping[str, int]:
        asked = CreatePartitionsRequest(topics, TIMEOUT_MS, validate_only)
        answered = (await self.ask(apis.CREATE_PARTITIONS, asked)).topics
        found = {each.name: each.error for each in answered}
        assert len(found) == len(answered), "each name is answered once"
        return found

    async def topic(self, name: str) -> TopicDescription:
        async with self.cluster.admin() as admin:
            (found,) = await admin.describe_topics([name])
        return found

    async def topics(self) -> set[str]:
        async with self.cluster.admin() as admin:
            return set(await admin.list_topics())

    async def replicas(self, name: str) -> list[tuple[int, ...]]:
        return [tuple(each.replicas) for each in (await self.topic(name)).partitions]

    # --- configs -----------------------------------------------------------------------------

    async def configs(self, name: str) -> dict[str, DescribedConfig]:
        asked = DescribeConfigsRequest((WantedConfigs(Resource(TOPIC, name), None),))
        (found,) = (await self.ask(apis.DESCRIBE_CONFIGS, asked)).resources
        assert found.error == 0
        return {each.name: each for each in found.configs}

    async def change(
        self, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
    ) -> ResourceOutcome:
        resource = ResourceChanges(Resource(TOPIC, name), tuple(ConfigChange(*each) for each in changes))
        asked = IncrementalAlterConfigsRequest((resource,), validate_only)
        (found,) = (await self.ask(apis.INCREMENTAL_ALTER_CONFIGS, asked)).outcomes
        outcome: ResourceOutcome = found
        return outcome


# --- topics -----------------------------------------------------------------------------------


@on_virtual_time
async def test_a_created_topic_is_described_in_the_answer(cluster: SimulatedCluster) -> None:
    """With -1, the client leaves its size to the broker. The answer comes once each partition has a leader;
    an error of one topic does not affect others."""
    client = Client(cluster)
    config = (GivenConfig("retention.ms", "5"), GivenConfig("compression.type", "producer"))
    placed = (GivenReplicas(0, (1, 2)), GivenReplicas(1, (3, 1)))
    await client.until_all_known()  # else a topic has fewer replicas by default
    shown, given, wrong = await client.create(
        WantedTopic("shown", -1, -1, configs=config),
        WantedTopic("placed", -1, -1, placed),
        WantedTopic("too-many", 1, 4),
    )
    assert (shown.error, shown.partitions, shown.replication_factor) == (0, 1, 3)
    own = {each.name: each.value for each in shown.configs if each.source == TOPIC_OWN}
    assert own == {"retention.ms": "5", "compression.type": "producer"}
    found = await client.topic("shown")
    assert (shown.topic_id, found.config) == (found.topic_id, own)
    assert (given.error, given.partitions, given.replication_factor) == (0, 2, 2)
    assert await client.replicas("placed") == [(1, 2), (3, 1)]
    assert all(each.leader > 0 for each in (await client.topic("placed")).partitions)
    assert (wrong.error, wrong.configs) == (ErrorCode.INVALID_REPLICATION_FACTOR, ())


@on_virtual_time
async def test_a_client_that_does_not_wait_has_its_topic_created(cluster: SimulatedCluster) -> None:
    """As with Kafka, it gets REQUEST_TIMED_OUT, which says that the creation goes on."""
    client = Client(cluster)
    (answer,) = await client.create(WantedTopic("unwaited", 1, 1), timeout_ms=0)
    assert answer.error == ErrorCode.REQUEST_TIMED_OUT
    assert "unwaited" in await client.topics()


REFUSED: Final = (
    (WantedTopic("wrong", 2, -1, (GivenReplicas(0, (1,)),)), 42),
    (WantedTopic("wrong", -1, -1, (GivenReplicas(1, (1,)),)), 39),
    (WantedTopic("wrong", -1, -1, (GivenReplicas(0, (9,)),)), 39),
    (WantedTopic("wrong", 0, -1), 37),
    (WantedTopic("wrong", 10_001, -1), 37),
    (WantedTopic("wrong", -1, 4), 38),
    (WantedTopic("wrong", -1, 0), 38),
    (WantedTopic("wrong", -1, -1, configs=(GivenConfig("retention.ms", None),)), 40),
    (WantedTopic("wrong", 1, 1, configs=(GivenConfig("message.timestamp.type", "of the moon"),)), 40),
    (WantedTopic("__own", 1, 1), 17),
    (WantedTopic("bad name", 1, 1), 17),
    (WantedTopic("there", 1, 1), 36),
)


@on_virtual_time
async def test_a_topic_that_cannot_be_is_refused_with_a_reason(cluster: SimulatedCluster) -> None:
    """Also if the request only asks for that. It creates nothing, what can be neither."""
    client = Client(cluster)
    await cluster.create_topic("there")
    for validate_only in (True, False):
        for wanted, code in REFUSED:
            (refused,) = await client.create(wanted, validate_only=validate_only)
            assert refused.error == code and refused.message, wanted
    (possible,) = await client.create(WantedTopic("imagined", 1, 1), validate_only=True)
    assert possible.error == 0
    assert await client.topics() & {"wrong", "imagined", "bad name", "__own"} == set()


@on_virtual_time
async def test_of_a_config_that_a_new_topic_is_given_twice_the_last_value_counts(
    cluster: SimulatedCluster,
) -> None:
    """As with Kafka, which does not look at the others."""
    client = Client(cluster)
    given = (
        GivenConfig("retention.ms", "x"),
        GivenConfig("segment.ms", "7"),
        GivenConfig("retention.ms", "2"),
    )
    (created,) = await client.create(WantedTopic("twice", 1, 1, configs=given))
    assert created.error == 0
    found = await client.configs("twice")
    assert (found["retention.ms"].value, found["segment.ms"].value) == ("2", "7")


@on_virtual_time
async def test_topics_are_deleted_by_name_and_id(cluster: SimulatedCluster) -> None:
    """The answer comes when the names are free."""
    client, unknown = Client(cluster), "f" * 32
    new = WantedTopic("first", 1, 3), WantedTopic("second", 1, 3)
    first, second = (each.topic_id for each in await client.create(*new))
    answer = await client.delete(
        UnwantedTopic(None, first),
        UnwantedTopic(None, unknown),
        UnwantedTopic("second"),
        UnwantedTopic(None),
        UnwantedTopic("never"),
        UnwantedTopic("__consumer_offsets"),
    )
    found = [(each.name, each.topic_id, each.error) for each in answer[:3]]
    unknown_id = int(ErrorCode.UNKNOWN_TOPIC_ID)
    assert found == [("first", first, 0), (None, unknown, unknown_id), ("second", second, 0)]
    assert [each.error for each in answer[3:]] == [INVALID_REQUEST, UNKNOWN_TOPIC, UNKNOWN_TOPIC]
    assert [each.error for each in await client.create(*new)] == [0, 0]


@on_virtual_time
async def test_topics_grow_or_have_their_error(cluster: SimulatedCluster) -> None:
    client = Client(cluster)
    await client.create(WantedTopic("growing", 2, 2), WantedTopic("placing", 1, 1))
    growths = TopicGrowth("growing", 5), TopicGrowth("placing", 3, ((2,), (3,))), TopicGrowth("never", 2)
    validated = await client.grow(*growths, validate_only=True)
    assert len(await client.replicas("growing")) == 2
    assert await client.grow(*growths) == validated == {"growing": 0, "placing": 0, "never": UNKNOWN_TOPIC}

    async def grown() -> bool:
        """A broker that was not asked reads of it later."""
        placed = await client.replicas("placing")
        return len(await client.replicas("growing")) == 5 and placed[1:] == [(2,), (3,)]

    await client.until(grown, "the topics have grown")
    for total in (5, 4, 0):
        assert await client.grow(TopicGrowth("growing", total)) == {"growing": ErrorCode.INVALID_PARTITIONS}
    too_many = TopicGrowth("growing", PARTITIONS_PER_TOPIC_MAX + 1)
    assert await client.grow(too_many) == {"growing": KafkaCode.POLICY_VIOLATION}


@on_virtual_time
async def test_a_topic_that_a_request_names_twice_is_refused_and_answered_once(
    cluster: SimulatedCluster,
) -> None:
    """As by Kafka. The other topics of a request have their outcomes."""
    client = Client(cluster)
    a, b = WantedTopic("a", 1, 1), WantedTopic("b", 1, 1)
    created = await client.create(a, b, a._replace(partitions=2))
    assert [(each.name, each.error) for each in created] == [("a", INVALID_REQUEST), ("b", 0)]
    await cluster.create_topic("a")
    grown = await client.grow(TopicGrowth("a", 3), TopicGrowth("a", 5), TopicGrowth("b", 2))
    assert grown == {"a": INVALID_REQUEST, "b": 0}
    by_name, by_id = UnwantedTopic("a"), UnwantedTopic(None, (await client.topic("a")).topic_id)
    for twice in ((by_name, by_name), (by_id, by_id), (by_name, by_id)):
        deleted = await client.delete(*twice, UnwantedTopic("c"))
        assert [(each.name, each.error) for each in deleted if each.name != "c"] == [
            (each.name, INVALID_REQUEST) for each in dict.fromkeys(twice)
        ]
    assert {"a", "b"} <= await client.topics()
    both, unknown = by_id._replace(name="a"), UnwantedTopic(None, "f" * 32)
    refused = await client.delete(both, unknown, unknown)
    assert [each.error for each in refused] == [INVALID_REQUEST] * 2, "as by Kafka"
    assert [each.error for each in await client.delete(by_name, UnwantedTopic("b"))] == [0, 0]


# --- configs ----------------------------------------------------------------------------------


@on_virtual_time
async def test_single_configs_are_changed(cluster: SimulatedCluster) -> None:
    """A client reads at once what was written, and builds the next change on it."""
    client = Client(cluster)
    await cluster.create_topic("t", config={"retention.ms": "60000", "cleanup.policy": "delete"})
    changes = (
        ("segment.bytes", SET, "1048576"),
        ("retention.ms", DELETE, None),
        ("cleanup.policy", APPEND, "compact"),
        ("message.timestamp.type", SET, "CreateTime"),
    )
    before = await client.configs("t")
    assert (await client.change("t", *changes, validate_only=True)).error == 0
    assert await client.configs("t") == before
    assert (await client.change("t", *changes)).error == 0
    found = await client.configs("t")
    assert (found["segment.bytes"].value, found["cleanup.policy"].value) == ("1048576", "delete,compact")
    assert found["retention.ms"].source == DEFAULT_VALUE
    assert (await client.change("t", ("cleanup.policy", SUBTRACT, "delete"))).error == 0
    assert (await client.configs("t"))["cleanup.policy"].value == "compact"
    replaced = ResourceConfigs(Resource(TOPIC, "t"), (GivenConfig("retention.ms", "70000"),))
    (outcome,) = (await client.ask(apis.ALTER_CONFIGS, AlterConfigsRequest((replaced,), False))).outcomes
    found = await client.configs("t")
    assert outcome.error == 0 and found["retention.ms"].value == "70000"
    assert [name for name, each in found.items() if each.source == TOPIC_OWN] == ["retention.ms"]


@on_virtual_time
async def test_a_change_that_cannot_be_is_refused_with_a_reason(cluster: SimulatedCluster) -> None:
    client = Client(cluster)
    await cluster.create_topic("t")
    for validate_only in (True, False):
        for name, value, reason in (
            ("min.insync.replicas", "0", "greater than or equal to 1"),
            ("remote.storage.enable", "true", "'false' only"),
            ("nonsense", "1", "unknown topic config"),
            ("retention.ms", "-7", "greater than or equal to -1"),
        ):
            found = await client.change("t", (name, SET, value), validate_only=validate_only)
            assert found.error == INVALID_CONFIG and reason in str(found.message)
        found = await client.change("never", ("retention.ms", SET, "1"), validate_only=validate_only)
        assert found.error == UNKNOWN_TOPIC
    assert (await client.topic("t")).config == {}
    twice = (ResourceConfigs(Resource(TOPIC, "t"), ()),) * 2
    changed = tuple(ResourceChanges(each.resource, ()) for each in twice)
    of_broker = (ResourceConfigs(Resource(BROKER, "1"), (GivenConfig("num.partitions", "8"),)),)
    replaced = await client.ask(apis.ALTER_CONFIGS, AlterConfigsRequest(twice, False))
    incremented = await client.ask(
        apis.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest(changed, False)
    )
    for answer in (replaced, incremented):
        assert [each.error for each in answer.outcomes] == [INVALID_REQUEST] * 2
    (outcome,) = (await client.ask(apis.ALTER_CONFIGS, AlterConfigsRequest(of_broker, False))).outcomes
    assert outcome.error == INVALID_REQUEST and "restart it" in outcome.message


@on_virtual_time
async def test_a_tool_deletes_the_throttles_of_a_reassignment_that_are_not_there(
    cluster: SimulatedCluster,
) -> None:
    """As `kafka-reassign-partitions --verify` does after each reassignment."""
    client = Client(cluster)
    await cluster.create_topic("t")
    of_brokers = [(BROKER, name, BROKER_THROTTLES) for name in ("1", "", "77", "none")]
    of_topic = (TOPIC, "t", ("leader.replication.throttled.replicas", "config.of.tomorrow"))
    changed = tuple(
        ResourceChanges(Resource(kind, name), tuple(ConfigChange(each, DELETE, None) for each in names))
        for kind, name, names in (*of_brokers, of_topic)
    )
    answer = await client.ask(apis.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest(changed, False))
    assert [each.error for each in answer.outcomes] == [0, 0, INVALID_REQUEST, INVALID_REQUEST, 0]


@on_virtual_time
async def test_configs_by_name_and_of_what_has_none(cluster: SimulatedCluster) -> None:
    """An empty name stands for what all brokers have in common: there is nothing such."""
    client = Client(cluster)
    await cluster.create_topic("t")
    wanted = [
        (BROKER, "77"),
        (BROKER, "x"),
        (LOGGER, "77"),
        (TOPIC, "never"),
        (TOPIC, "no/name"),
        (BROKER, ""),
    ]
    asked = [WantedConfigs(Resource(*each), None) for each in wanted]
    asked.append(WantedConfigs(Resource(TOPIC, "t"), ("segment.ms", "x")))
    request = DescribeConfigsRequest(tuple(asked), documentation=True)
    *others, common, named = (await client.ask(apis.DESCRIBE_CONFIGS, request)).resources
    assert [each.error for each in others] == [INVALID_REQUEST] * 3 + [UNKNOWN_TOPIC, INVALID_TOPIC]
    assert [bool(each.message) for each in others] == [True, True, True, False, True], "as from Kafka"
    assert (common.error, common.configs) == (0, ())
    (config,) = named.configs
    assert (config.name, config.value, config.synonyms) == ("segment.ms", "604800000", ())
    assert config.documentation


@on_virtual_time
async def test_one_request_describes_the_configs_of_a_bounded_number_of_topics(
    cluster: SimulatedCluster,
) -> None:
    """CORRECTNESS X6."""
    names = (f"many-{number}" for number in range(TOPICS_PER_REQUEST_MAX + 1))
    asked = DescribeConfigsRequest(tuple(WantedConfigs(Resource(TOPIC, name), None) for name in names))
    answer = await Client(cluster).ask(apis.DESCRIBE_CONFIGS, asked)
    assert {each.error for each in answer.resources} == {INVALID_REQUEST}
