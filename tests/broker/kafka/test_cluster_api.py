"""Metadata for Kafka clients names the brokers that they can reach, as they reach them by the port that they
came by."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import pytest

from strandline.adapters.system.clock import SystemClock
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.handlers.cluster import ClusterApi
from strandline.broker.kafka.handlers.controller import ControllerRequests
from strandline.broker.kafka.wire.admin.cluster import BROKERS, CONTROLLERS, DescribeClusterRequest
from strandline.broker.kafka.wire.coordinator import GROUP, TRANSACTION, FindCoordinatorRequest
from strandline.broker.kafka.wire.header import RequestHeader
from strandline.broker.kafka.wire.metadata import BrokerAddress, MetadataRequest, TopicWanted
from strandline.broker.kafka.wire.producer_id import InitProducerIdAnswer, InitProducerIdRequest
from strandline.errors import (
    CoordinatorNotAvailable,
    InvalidTopic,
    LeaderNotAvailable,
    StrandlineError,
    UnknownTopicOrPartition,
)
from strandline.ids import BrokerEpoch, BrokerId, TopicId
from strandline.ports import Caller, Clock, Listener
from strandline.vocabulary.admin import BrokerDescription, ClusterDescription
from strandline.vocabulary.log import MetadataAnswer, MetadataQuery, ProducerIdentity
from strandline.vocabulary.metadata import (
    ClusterMetadata,
    Endpoint,
    PartitionMetadata,
    Registration,
    TopicMetadata,
)
from tests.broker.kafka.support.controller import MemoryController
from tests.broker.support.access import OPEN
from tests.broker.support.replicas import CLOCK

T = TypeVar("T")

OWN = Endpoint(1, "h1", 1, "r", kafka=("k1", 9094), kafka_external=("out", 29_092))
WITHOUT = Endpoint(2, "h2", 1)
"""A broker without a Kafka port, or of a version that had none."""
ONE_PORT = Endpoint(3, "h3", 1, kafka=("k3", 9094))
LEADERS = (1, 2, 3, -1)
TIDES = TopicMetadata(
    "tides",
    TopicId("a" * 32),
    tuple(PartitionMetadata(number, leader, 5, (1, 2, 4), (1, 2)) for number, leader in enumerate(LEADERS)),
)
CLUSTER = ClusterMetadata("c", (OWN, WITHOUT, ONE_PORT), None, (TIDES,))
LIVE = {BrokerId(each.id): Registration(each, BrokerEpoch(each.id)) for each in CLUSTER.brokers}
NOT_AVAILABLE = 5
NO_COORDINATOR = 15
UNKNOWN_TOPIC = 3
INVALID_TOPIC = 17
NO_TRANSACTIONS = 53
INVALID = 42
UNKNOWN_TOPIC_ID = 100


def unknown(name: str) -> StrandlineError:
    return InvalidTopic(name) if " " in name else UnknownTopicOrPartition(name)


class Known:
    """What the broker knows of the cluster; None: it has no ZooKeeper session."""

    def __init__(self, cluster: ClusterMetadata | None) -> None:
        self.cluster = cluster
        self.asked: list[Sequence[str] | None] = []
        self.created: list[str] = []
        self.creates: TopicMetadata | None = None
        """The topic that each creation makes; None: it takes long."""
        self.suspected: list[BrokerId] = []
        self.controlled = ClusterDescription("c", OWN, ())
        """What the controller says of the cluster."""

    async def describe(self, query: MetadataQuery, caller: Caller) -> MetadataAnswer:
        self.asked.append(query.topics)
        if self.cluster is None:
            raise LeaderNotAvailable("no session")
        known = {topic.name for topic in self.cluster.topics}
        missing = [name for name in query.topics or () if name not in known]
        return MetadataAnswer(self.cluster, {name: unknown(name) for name in missing})

    async def identity(self, caller: Caller) -> ProducerIdentity:
        if self.cluster is None:
            raise LeaderNotAvailable("no session")
        return ProducerIdentity(7, 0)

    async def create_missing(self, missing: Iterable[str], caller: Caller) -> Mapping[str, StrandlineError]:
        names = list(missing)
        self.created += names
        if self.creates is not None and self.cluster is not None:
            self.cluster = replace(self.cluster, topics=(*self.cluster.topics, self.creates))
        return {name: LeaderNotAvailable("is being created") for name in names}

    async def groups(self, keys: Iterable[str], caller: Caller) -> list[Endpoint | StrandlineError]:
        led_by: dict[str, Endpoint | StrandlineError] = {"on-1": OWN, "on-2": WITHOUT}
        return [led_by.get(key, CoordinatorNotAvailable(key)) for key in keys]

    async def transactions(self, keys: Iterable[str], caller: Caller) -> list[Endpoint | StrandlineError]:
        return [OWN for _ in keys]

    async def init_transactions(self, request: InitProducerIdRequest, call: Call) -> InitProducerIdAnswer:
        return InitProducerIdAnswer(8, 3)

    @property
    def api(self) -> ClusterApi:
        return self.api_by(CLOCK)

    def api_by(self, clock: Clock) -> ClusterApi:
        return ClusterApi(
            self.describe,
            self.identity,
            self.init_transactions,
            {GROUP: self.groups, TRANSACTION: self.transactions},
            self.create_missing,
            lambda: LIVE,
            lambda: self.suspected,
            OWN,
            partial(ControllerRequests, MemoryController(lambda _: self.controlled).link),
            OPEN,
            clock,
        )


def call(listener: Listener = Listener.INTERNAL, version: int = 12) -> Call:
    return Call(RequestHeader(3, version, 1, "t"), Caller("c", "h", listener))


ALL = MetadataRequest(None)
INSIDE = (BrokerAddress(1, "k1", 9094, "r"), BrokerAddress(3, "k3", 9094, None))


async def test_a_broker_without_a_kafka_port_is_not_named_and_leads_nothing() -> None:
    """As during a rolling upgrade. Clients ask again for a partition without a leader."""
    found = await Known(CLUSTER).api.metadata(ALL, call())
    assert found.brokers == INSIDE
    assert (found.cluster_id, found.controller) == ("c", 1)
    (topic,) = found.topics
    assert [(each.leader, each.error) for each in topic.partitions] == [
        (1, 0), (-1, NOT_AVAILABLE), (3, 0), (-1, NOT_AVAILABLE),
    ]  # fmt: skip
    assert all(each.offline == (4,) and each.leader_epoch == 5 for each in topic.partitions)


async def test_a_suspected_leader_is_not_named() -> None:
    """A client that lost a killed leader asks at once, before another one is elected. One that goes to the
    dead one waits for its own pauses before it asks again."""
    known = Known(CLUSTER)
    known.suspected = [BrokerId(3)]
    found = await known.api.metadata(ALL, call())
    assert found.brokers == INSIDE
    assert [(each.leader, each.error) for each in found.topics[0].partitions][2] == (-1, NOT_AVAILABLE)
    known.suspected = [BrokerId(1)]
    (answer,) = (await known.api.find_coordinator(FindCoordinatorRequest(("on-1",), GROUP), call())).found
    assert answer.error == NO_COORDINATOR


async def test_clients_of_the_external_port_get_external_addresses() -> None:
    found = await Known(CLUSTER).api.metadata(ALL, call(Listener.EXTERNAL))
    assert found.brokers == (BrokerAddress(1, "out", 29_092, "r"), INSIDE[1])


async def test_topics_are_asked_for_by_name_and_none_means_all() -> None:
    known = Known(CLUSTER)
    await known.api.metadata(ALL, call())
    await known.api.metadata(MetadataRequest(()), call())
    await known.api.metadata(MetadataRequest((TopicWanted("a"), TopicWanted("b")), auto_create=False), call())
    await known.api.metadata(MetadataRequest((TopicWanted(None, "a" * 32),)), call())
    assert known.asked == [[], None, ["a", "b"], []]


async def test_a_topic_is_found_by_its_id() -> None:
    """KIP-516: with its name; an id that no topic has gets no name."""
    api = Known(CLUSTER).api
    by_name = await api.metadata(MetadataRequest((TopicWanted("tides"),)), call())
    by_id = (TopicWanted(None, TIDES.topic_id), TopicWanted(None, "f" * 32))
    found, missing = (await api.metadata(MetadataRequest(by_id), call())).topics
    assert (found,) == by_name.topics
    assert (missing.error, missing.name) == (UNKNOWN_TOPIC_ID, None)


@pytest.mark.parametrize("name", ["", "other", None])
async def test_an_id_counts_more_than_a_name(name: str | None) -> None:
    """Java's client asks by an id with an empty name. The answers are those of a broker of Kafka 4.4."""
    wanted = (TopicWanted(name, TIDES.topic_id), TopicWanted(name, "f" * 32))
    known = Known(CLUSTER)
    found, missing = (await known.api.metadata(MetadataRequest(wanted), call())).topics
    assert (found.error, found.name, found.topic_id) == (0, "tides", TIDES.topic_id)
    assert (missing.error, missing.name, missing.topic_id) == (UNKNOWN_TOPIC_ID, None, "f" * 32)
    assert not known.created


@pytest.mark.parametrize("version", [10, 11])
async def test_versions_that_only_have_the_fields_of_ids_find_no_topic_by_them(version: int) -> None:
    """KIP-516: a broker of Kafka 4.4 refuses the whole request, and names no brokers either."""
    wanted = (TopicWanted(None, TIDES.topic_id), TopicWanted("tides"))
    known = Known(CLUSTER)
    found = await known.api.metadata(MetadataRequest(wanted), call(version=version))
    assert [(each.error, each.name) for each in found.topics] == [(INVALID, None), (INVALID, "tides")]
    assert (found.brokers, found.cluster_id, found.controller, known.asked) == ((), None, -1, [])


async def test_neither_a_name_nor_an_id_is_no_topic() -> None:
    """A broker of Kafka 4.4 fails with -1 here, and so does everything else in the request."""
    wanted = (TopicWanted(None), TopicWanted("tides"))
    nothing, found = (await Known(CLUSTER).api.metadata(MetadataRequest(wanted), call())).topics
    assert (nothing.error, found.error) == (UNKNOWN_TOPIC_ID, 0)


@pytest.mark.parametrize("auto_create", [True, False])
async def test_an_unknown_topic_is_created_if_the_client_allows_it(auto_create: bool) -> None:
    known = Known(CLUSTER)
    asked = MetadataRequest(
        (TopicWanted("tides"), TopicWanted("new"), TopicWanted("not a name")), auto_create
    )
    found = await known.api.metadata(asked, call())
    assert known.created == (["new"] if auto_create else [])
    new = NOT_AVAILABLE if auto_create else UNKNOWN_TOPIC
    assert [each.error for each in found.topics] == [0, new, INVALID_TOPIC]


async def test_a_topic_that_was_just_created_is_in_the_answer() -> None:
    """No error about it would do: kafka-ts ends at LEADER_NOT_AVAILABLE, and the loop of kafka-go's page at
    UNKNOWN_TOPIC_OR_PARTITION."""
    known = Known(CLUSTER)
    known.creates = replace(TIDES, name="new", topic_id=TopicId("b" * 32))
    found = await known.api.metadata(MetadataRequest((TopicWanted("tides"), TopicWanted("new"))), call())
    assert [(each.name, each.error, len(each.partitions)) for each in found.topics] == [
        ("tides", 0, len(LEADERS)), ("new", 0, len(LEADERS)),
    ]  # fmt: skip
    assert known.created == ["new"]


async def test_the_cluster_is_described_as_in_metadata_without_a_look_at_topics() -> None:
    known = Known(CLUSTER)
    api = known.api
    found = await api.describe_cluster(DescribeClusterRequest(), call())
    assert (found.cluster_id, found.controller, found.brokers, found.error) == ("c", 1, INSIDE, 0)
    outside = await api.describe_cluster(DescribeClusterRequest(), call(Listener.EXTERNAL))
    assert outside.brokers == (BrokerAddress(1, "out", 29_092, "r"), INSIDE[1])
    known.cluster = None
    assert await api.describe_cluster(DescribeClusterRequest(), call()) == found, "what it knew last"
    assert known.asked == [None, None, None]


async def test_brokers_that_are_down_are_named_on_request() -> None:
    """KIP-1073. Their addresses were in registrations that ended with them. One that this broker takes for
    alive still is named once."""
    known = Known(CLUSTER)
    down = [
        BrokerDescription(Endpoint(each, "", 0), 0, False, 3, alive=False) for each in (4, INSIDE[1].broker)
    ]
    known.controlled = ClusterDescription("c", OWN, (BrokerDescription(OWN, 1, False, 0), *down))
    api = known.api
    found = await api.describe_cluster(DescribeClusterRequest(fenced=True), call())
    assert found.brokers == (*INSIDE, BrokerAddress(4, "", -1, fenced=True))
    assert (await api.describe_cluster(DescribeClusterRequest(), call())).brokers == INSIDE


@pytest.mark.parametrize(("endpoints", "error"), [(CONTROLLERS, 114), (3, 115)])
async def test_a_client_of_controllers_is_refused(endpoints: int, error: int) -> None:
    """KIP-919: a controller's address is none of a broker's. The answer is of a broker's kind."""
    found = await Known(CLUSTER).api.describe_cluster(DescribeClusterRequest(endpoints), call())
    assert (found.error, found.endpoints, found.brokers) == (error, BROKERS, ())


async def test_internal_topics_say_so() -> None:
    internal = ClusterMetadata("c", (OWN,), None, (TopicMetadata("__x", TopicId("b" * 32), ()), TIDES))
    found = await Known(internal).api.metadata(ALL, call())
    assert [(each.name, each.is_internal) for each in found.topics] == [("__x", True), ("tides", False)]


async def test_without_a_session_clients_keep_the_brokers_and_ask_again() -> None:
    known = Known(CLUSTER)
    api = known.api
    await api.metadata(ALL, call())
    known.cluster = None
    found = await api.metadata(MetadataRequest((TopicWanted("tides"),)), call())
    assert found.brokers == INSIDE
    assert [(each.name, each.error) for each in found.topics] == [("tides", NOT_AVAILABLE)]
    assert (await api.new_producer_id(InitProducerIdRequest(None), call())).error == NO_COORDINATOR


async def test_a_broker_without_a_session_does_not_say_that_there_are_no_topics() -> None:
    """A consumer that subscribes by a pattern would give up all of its partitions. Without an answer the
    client asks another broker."""
    known = Known(CLUSTER)
    api = known.api
    await api.metadata(ALL, call())
    known.cluster = None
    with pytest.raises(LeaderNotAvailable):
        await api.metadata(ALL, call())


@pytest.mark.parametrize("topics", [None, (), (TopicWanted("tides"),)])
async def test_a_broker_that_never_had_a_session_answers_nothing(
    topics: tuple[TopicWanted, ...] | None,
) -> None:
    """With its own address alone, librdkafka would give up all other brokers, and send what they have not
    answered again: a producer that never sends twice stored records twice."""
    api = Known(None).api
    with pytest.raises(LeaderNotAvailable):
        await api.metadata(MetadataRequest(topics), call())
    with pytest.raises(LeaderNotAvailable):
        await api.describe_cluster(DescribeClusterRequest(), call())


@pytest.mark.parametrize(("key", "error"), [("on-1", 0), ("on-2", NO_COORDINATOR)])
async def test_a_coordinator_needs_a_kafka_port(key: str, error: int) -> None:
    (found,) = (
        await Known(CLUSTER).api.find_coordinator(FindCoordinatorRequest((key,), GROUP), call())
    ).found
    assert found.error == error
    assert (found.host, found.port) == (("k1", 9094) if not error else ("", -1))


class HurriedClock(SystemClock):
    """A second passes each time that it is read."""

    seconds = 0.0

    def monotonic(self) -> float:
        self.seconds += 1
        return self.seconds


async def turns_during(work: Awaitable[T]) -> tuple[int, T]:
    """How often another task had its turn, and the result of the work."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        counting = tasks.create_task(count())
        found = await work
        counting.cancel()
    return turns, found


async def test_others_have_their_turns_while_thousands_of_topics_are_described() -> None:
    """CORRECTNESS X6: one request may ask for all topics."""
    topics = tuple(replace(TIDES, name=f"t-{number}") for number in range(100))
    api = Known(replace(CLUSTER, topics=topics)).api_by(HurriedClock())
    for asked in (ALL, MetadataRequest(tuple(TopicWanted(each.name) for each in topics))):
        turns, found = await turns_during(api.metadata(asked, call()))
        assert len(found.topics) == len(topics) and turns >= 2 * len(topics)


async def test_groups_and_transactional_ids_have_coordinators_of_their_own() -> None:
    for kind, broker in ((GROUP, -1), (TRANSACTION, 1)):
        request = FindCoordinatorRequest(("k",), kind)
        (found,) = (await Known(CLUSTER).api.find_coordinator(request, call())).found
        assert found.broker == broker


@pytest.mark.parametrize(("kind", "error"), [(2, 42), (-1, 42)])
async def test_nothing_else_has_a_coordinator(kind: int, error: int) -> None:
    """Share groups (2) have none, as with a Kafka broker that does not serve them."""
    (found,) = (await Known(CLUSTER).api.find_coordinator(FindCoordinatorRequest(("k",), kind), call())).found
    assert (found.error, found.broker) == (error, -1)
    assert bool(found.message) is (kind != 2), "as from Kafka"


async def test_a_producer_with_a_transactional_id_gets_its_identity_from_the_coordinator() -> None:
    api = Known(CLUSTER).api
    assert await api.new_producer_id(InitProducerIdRequest("t"), call()) == InitProducerIdAnswer(8, 3)
    half = InitProducerIdRequest(None, producer_id=7)
    assert (await api.new_producer_id(half, call())).error == 42
    assert (await api.new_producer_id(InitProducerIdRequest(None), call())).producer_id == 7


@pytest.mark.parametrize(("producer_id", "epoch", "error"), [(5, -1, INVALID), (-1, 5, INVALID), (5, 5, 0)])
async def test_half_an_identity_of_a_producer_is_refused(producer_id: int, epoch: int, error: int) -> None:
    """KIP-360: a producer that begins a new epoch names both. It gets a new identity."""
    asked = InitProducerIdRequest(None, producer_id=producer_id, epoch=epoch)
    found = await Known(CLUSTER).api.new_producer_id(asked, call())
    assert (found.error, found.producer_id, found.producer_epoch) == (error, *((-1, -1) if error else (7, 0)))
