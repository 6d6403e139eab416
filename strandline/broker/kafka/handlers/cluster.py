"""Answers Metadata, DescribeCluster, FindCoordinator and InitProducerId."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from strandline.adapters.codecs.admin import DESCRIBE_CLUSTER as CLUSTER
from strandline.broker.kafka.addresses import kafka_address
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import KafkaCode, code_of, find_coordinator_code
from strandline.broker.kafka.handlers.controller import ControllerFor, Deadline
from strandline.broker.kafka.handlers.operations import operations_of
from strandline.broker.kafka.wire.admin.cluster import (
    BROKERS,
    CONTROLLERS,
    DescribeClusterAnswer,
    DescribeClusterRequest,
)
from strandline.broker.kafka.wire.coordinator import (
    SEVERAL_SINCE,
    SHARE,
    FindCoordinatorAnswer,
    FindCoordinatorRequest,
    FoundCoordinator,
)
from strandline.broker.kafka.wire.metadata import (
    IDS_SINCE,
    NO_TOPIC_ID,
    OPERATIONS_UNKNOWN,
    BrokerAddress,
    MetadataAnswer,
    MetadataRequest,
    PartitionFacts,
    TopicFacts,
    TopicWanted,
)
from strandline.broker.kafka.wire.producer_id import InitProducerIdAnswer, InitProducerIdRequest
from strandline.errors import (
    ClusterAuthorizationFailed,
    CoordinatorNotAvailable,
    ErrorCode,
    LeaderNotAvailable,
    StrandlineError,
    UnknownTopicOrPartition,
)
from strandline.ids import INTERNAL_PREFIX, NO_BROKER, BrokerId
from strandline.ports import Caller, Clock, Listener
from strandline.security.access import Access
from strandline.security.acls import ResourceType
from strandline.security.rights import DESCRIBE_CLUSTER
from strandline.tasks import in_slices
from strandline.vocabulary.log import MetadataAnswer as Described
from strandline.vocabulary.log import MetadataQuery, ProducerIdentity
from strandline.vocabulary.metadata import (
    ClusterMetadata,
    Endpoint,
    PartitionMetadata,
    Registration,
    TopicMetadata,
)

Describe = Callable[[MetadataQuery, Caller], Awaitable[Described]]
CreateMissing = Callable[[Iterable[str], Caller], Awaitable[Mapping[str, StrandlineError]]]
NewIdentity = Callable[[Caller], Awaitable[ProducerIdentity]]
FindCoordinators = Callable[[Iterable[str], Caller], Awaitable[Sequence[Endpoint | StrandlineError]]]
InitTransactions = Callable[[InitProducerIdRequest, Call], Awaitable[InitProducerIdAnswer]]


class ClusterApi:
    """These APIs, for all connections of one broker."""

    def __init__(
        self,
        describe: Describe,
        new_identity: NewIdentity,
        init_transactions: InitTransactions,
        coordinators: Mapping[int, FindCoordinators],
        create_missing: CreateMissing,
        live: Callable[[], Mapping[BrokerId, Registration]],
        suspected: Callable[[], Collection[BrokerId]],
        own: Endpoint,
        controller: ControllerFor,
        access: Access,
        clock: Clock,
    ) -> None:
        """The first three are those of this broker's handlers; `coordinators` has one for each kind of key
        that is coordinated here. `create_missing` has topics created, and returns what to say of them;
        `suspected` has live brokers whose port refuses connections; `own` has this broker's addresses."""
        self._controller_for = controller
        self._access = access
        self._clock = clock
        self._describe = describe
        self._new_identity = new_identity
        self._init_transactions = init_transactions
        self._coordinators = coordinators
        self._create_missing = create_missing
        self._live = live
        self._suspected = suspected
        self._own = own
        self._last: ClusterMetadata | None = None
        """Of the last answer: the brokers and the cluster's id, for while there is no ZooKeeper session.
        None: there was no answer yet. A part of the brokers is none: librdkafka gives the others up, and
        sends what these have not answered again."""

    # --- metadata ----------------------------------------------------------------------------

    async def metadata(self, request: MetadataRequest, call: Call) -> MetadataAnswer:
        """The cluster as Kafka clients see it. Brokers without a Kafka address are left out. A partition that
        one of them leads, or a suspected broker, has no leader that a client could reach.

        Raises LeaderNotAvailable if this broker does not know the others yet, or all topics are asked for and
        it does not know them.
        """
        to = call.caller.listener
        if call.version < IDS_SINCE and any(each.by_id for each in request.topics or ()):
            code = int(ErrorCode.INVALID_REQUEST)
            refused = [TopicFacts(each.name, code, each.topic_id) for each in request.topics or ()]
            return MetadataAnswer((), None, int(NO_BROKER), tuple(refused))
        try:
            cluster, topics = await self._described(request, call.caller)
        except LeaderNotAvailable:
            if request.topics is None or self._last is None:
                raise  # an empty list would say that there are no topics; another broker may know them
            cluster = self._last
            code = int(ErrorCode.LEADER_NOT_AVAILABLE)
            topics = [TopicFacts(each.name, code, each.topic_id) for each in request.topics]
        else:
            self._last = replace(cluster, topics=())
        brokers = _addresses(cluster, to)
        # A client that goes to a killed leader waits, often for a second, before it asks again.
        reachable = {broker.broker for broker in brokers}.difference(self._suspected())
        topics = await in_slices(partial(_reachable, reachable), topics, self._clock)
        if request.topic_operations:
            topics = await in_slices(partial(self._with_operations, call.caller), topics, self._clock)
        return MetadataAnswer(
            brokers,
            cluster.cluster_id or None,
            self._controller(reachable),
            tuple(topics),
            self._operations(call.caller) if request.cluster_operations else OPERATIONS_UNKNOWN,
        )

    def _operations(self, caller: Caller) -> int:
        return operations_of(self._access, caller, ResourceType.CLUSTER)

    def _with_operations(self, caller: Caller, topic: TopicFacts) -> TopicFacts:
        if topic.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED or topic.name is None:
            return topic
        operations = operations_of(self._access, caller, ResourceType.TOPIC, topic.name)
        return topic._replace(operations=operations)

    async def describe_cluster(self, request: DescribeClusterRequest, call: Call) -> DescribeClusterAnswer:
        """The brokers as in Metadata, and those that are down if they are asked for. A client that is
        configured to talk to controllers is refused (KIP-919): those of strandline do not speak Kafka's
        protocol. Raises LeaderNotAvailable if this broker does not know the others yet."""
        if request.endpoints != BROKERS:
            known = request.endpoints == CONTROLLERS
            code = KafkaCode.MISMATCHED_ENDPOINT_TYPE if known else KafkaCode.UNSUPPORTED_ENDPOINT_TYPE
            return DescribeClusterAnswer(error=int(code), message="this is a broker")
        try:
            found = await self._describe(MetadataQuery(None, include_config=False), call.caller)
        except LeaderNotAvailable:
            if self._last is None:
                raise
        else:
            self._last = found.cluster
        brokers = _addresses(self._last, call.caller.listener)
        controller = self._controller({broker.broker for broker in brokers})
        if request.fenced:
            try:
                brokers += await self._fenced(call.caller, {broker.broker for broker in brokers})
            except StrandlineError as error:
                return DescribeClusterAnswer(error=code_of(error), message=error.message)
        operations = self._operations(call.caller) if request.operations else OPERATIONS_UNKNOWN
        return DescribeClusterAnswer(self._last.cluster_id, controller, brokers, operations=operations)

    async def _fenced(self, caller: Caller, alive: set[int]) -> tuple[BrokerAddress, ...]:
        """Brokers that were here once, and are not forgotten, besides those that are named already: this
        broker and the controller do not see a death at once. Raises as the controller does, and
        ClusterAuthorizationFailed."""
        self._access.check(caller, DESCRIBE_CLUSTER)
        cluster = await self._controller_for(caller).ask(CLUSTER, None, Deadline(self._clock))
        return tuple(
            BrokerAddress(each.endpoint.id, "", -1, fenced=True)
            for each in cluster.brokers
            if not each.alive and each.endpoint.id not in alive
        )

    def _controller(self, reachable: set[int]) -> int:
        """This broker, which passes on what the controller has to do: a client goes to the broker that is
        named here."""
        return self._own.id if self._own.id in reachable else int(NO_BROKER)

    async def _described(
        self, request: MetadataRequest, caller: Caller
    ) -> tuple[ClusterMetadata, list[TopicFacts]]:
        """Raises LeaderNotAvailable."""
        wanted = request.topics
        by_id = wanted is not None and any(each.by_id for each in wanted)
        names: list[str] | None = []
        if wanted is not None and not by_id:
            names = [each.name for each in wanted if each.name is not None] or None
        # librdkafka sees that a topic has grown at one broker, and then asks another for the partitions to
        # assign. If that one does not know them yet, the group reads none of them until the next change.
        answer = await self._describe(MetadataQuery(names, include_config=False, current_sizes=True), caller)
        cluster, live = answer.cluster, self._live()
        if wanted is None:
            return cluster, await in_slices(partial(_topic, live), cluster.topics, self._clock)
        errors = dict(answer.errors)
        if request.auto_create:
            missing = [name for name, error in errors.items() if isinstance(error, UnknownTopicOrPartition)]
            created = await self._create_missing(missing, caller)
            errors |= created
            if any(isinstance(error, LeaderNotAvailable) for error in created.values()):
                # kafka-ts ends at this error, and what kafka-go documents ends at UNKNOWN_TOPIC_OR_PARTITION,
                # which Kafka answers: no error suits all clients, and the topic itself does.
                cluster = (await self._describe(MetadataQuery(names, include_config=False), caller)).cluster
        by_name = {topic.name: topic for topic in cluster.topics}
        ids: dict[str, TopicMetadata] = {topic.topic_id: topic for topic in cluster.topics}

        def facts(each: TopicWanted) -> TopicFacts:
            found = ids.get(each.topic_id) if each.by_id else by_name.get(each.name or "")
            if found is not None:
                return _topic(live, found)
            if each.by_id or each.name is None:
                return TopicFacts(None, int(ErrorCode.UNKNOWN_TOPIC_ID), each.topic_id)
            error = errors.get(each.name)
            return TopicFacts(each.name, code_of(error) or int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

        return cluster, await in_slices(facts, dict.fromkeys(wanted), self._clock)

    # --- coordinators and identities ---------------------------------------------------------

    async def find_coordinator(self, request: FindCoordinatorRequest, call: Call) -> FindCoordinatorAnswer:
        keys, find = request.keys, self._coordinators.get(request.kind)
        if find is None:
            code, why = (
                int(ErrorCode.INVALID_REQUEST),
                f"keys of type {request.kind} have no coordinator here",
            )
            if request.kind == SHARE and call.version >= SEVERAL_SINCE:
                why = ""
            return FindCoordinatorAnswer(tuple(FoundCoordinator(key, code, why) for key in keys))
        led_by = await find(keys, call.caller)
        found = [self._coordinator(key, led, call) for key, led in zip(keys, led_by, strict=True)]
        return FindCoordinatorAnswer(tuple(found))

    def _coordinator(self, key: str, led_by: Endpoint | StrandlineError, call: Call) -> FoundCoordinator:
        try:
            if isinstance(led_by, StrandlineError):
                raise led_by
            address = kafka_address(led_by, call.caller.listener)
            if address is None:
                raise CoordinatorNotAvailable(f"broker {led_by.id} coordinates it, and has no Kafka port")
            if led_by.id in self._suspected():
                raise CoordinatorNotAvailable(f"broker {led_by.id} coordinates it, and cannot be reached")
        except StrandlineError as error:
            return FoundCoordinator(key, find_coordinator_code(error), error.message)
        no_error = "" if call.version >= SEVERAL_SINCE else "NONE"  # its name in Kafka
        return FoundCoordinator(key, 0, no_error, address.broker, address.host, address.port)

    async def new_producer_id(self, request: InitProducerIdRequest, call: Call) -> InitProducerIdAnswer:
        """A new identity with epoch 0, whichever the client had before, unless it has a transactional id.
        Half an identity is a mistake."""
        if request.transactional_id is not None:
            return await self._init_transactions(request, call)
        if (request.producer_id == -1) != (request.epoch == -1):
            return InitProducerIdAnswer(error=int(ErrorCode.INVALID_REQUEST))
        try:
            identity = await self._new_identity(call.caller)
        except ClusterAuthorizationFailed as error:
            return InitProducerIdAnswer(error=code_of(error))
        except LeaderNotAvailable:
            # Of the retriable codes, the one that every client retries here.
            return InitProducerIdAnswer(error=int(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return InitProducerIdAnswer(identity.producer_id, identity.producer_epoch)


def _addresses(cluster: ClusterMetadata, to: Listener) -> tuple[BrokerAddress, ...]:
    found = (kafka_address(endpoint, to) for endpoint in cluster.brokers)
    return tuple(address for address in found if address is not None)


def _topic(live: Mapping[BrokerId, Registration], topic: TopicMetadata) -> TopicFacts:
    return TopicFacts(
        topic.name,
        0,
        topic.topic_id or NO_TOPIC_ID,
        topic.name.startswith(INTERNAL_PREFIX),
        tuple(_partition(partition, live) for partition in topic.partitions),
    )


def _partition(partition: PartitionMetadata, live: Mapping[BrokerId, Registration]) -> PartitionFacts:
    return PartitionFacts(
        partition.partition,
        int(ErrorCode.LEADER_NOT_AVAILABLE) if partition.leader == NO_BROKER else 0,
        partition.leader,
        partition.leader_epoch,
        partition.replicas,
        partition.isr,
        tuple(broker for broker in partition.replicas if broker not in live),
    )


def _reachable(brokers: set[int], topic: TopicFacts) -> TopicFacts:
    """The same topic, without leaders that the answer has no address for."""
    if all(partition.leader in brokers for partition in topic.partitions):
        return topic
    code = int(ErrorCode.LEADER_NOT_AVAILABLE)
    partitions = (
        partition if partition.leader in brokers else partition._replace(error=code, leader=int(NO_BROKER))
        for partition in topic.partitions
    )
    return topic._replace(partitions=tuple(partitions))
