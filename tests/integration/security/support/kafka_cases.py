"""The cases of Kafka's APIs."""

from __future__ import annotations

from typing import Any, Final

from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.admin.cluster import DescribeClusterRequest, UnregisterBrokerRequest
from strandline.broker.kafka.wire.admin.configs import (
    BROKER,
    AlterConfigsRequest,
    ConfigChange,
    DescribeConfigsRequest,
    GivenConfig,
    IncrementalAlterConfigsRequest,
    Resource,
    ResourceChanges,
    ResourceConfigs,
    WantedConfigs,
)
from strandline.broker.kafka.wire.admin.configs import GROUP as GROUP_KIND
from strandline.broker.kafka.wire.admin.configs import TOPIC as TOPIC_KIND
from strandline.broker.kafka.wire.admin.placement import (
    ElectLeadersRequest,
    ListReassignmentsRequest,
    PartitionTarget,
    ReassignRequest,
)
from strandline.broker.kafka.wire.admin.quotas import (
    AlteredQuotas,
    AlterQuotasRequest,
    DescribeQuotasRequest,
    EntityPart,
)
from strandline.broker.kafka.wire.admin.replicas import (
    DeleteRecordsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    PartitionDeletion,
)
from strandline.broker.kafka.wire.admin.resources import ListResourcesRequest
from strandline.broker.kafka.wire.admin.topic_changes import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    TopicGrowth,
    UnwantedTopic,
    WantedTopic,
)
from strandline.broker.kafka.wire.admin.topic_partitions import DescribeTopicPartitionsRequest
from strandline.broker.kafka.wire.admin.users import AlterUsersRequest, Deletion, DescribeUsersRequest
from strandline.broker.kafka.wire.coordinator import FindCoordinatorRequest
from strandline.broker.kafka.wire.fetch import FetchRequest, PartitionPosition
from strandline.broker.kafka.wire.groups.administration import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from strandline.broker.kafka.wire.groups.consumers import ConsumerDescribeRequest, ConsumerHeartbeatRequest
from strandline.broker.kafka.wire.groups.membership import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    MemberThatLeaves,
    OfferedProtocol,
    SyncGroupRequest,
)
from strandline.broker.kafka.wire.groups.offsets import (
    GroupWanted,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetToCommit,
)
from strandline.broker.kafka.wire.metadata import MetadataRequest, TopicWanted
from strandline.broker.kafka.wire.offsets import (
    EpochEndsRequest,
    ListOffsetsRequest,
    PartitionEpoch,
    PartitionTime,
)
from strandline.broker.kafka.wire.produce import PartitionRecords, ProduceRequest
from strandline.broker.kafka.wire.producer_id import InitProducerIdRequest
from strandline.broker.kafka.wire.topics import OfTopic, Topics
from strandline.ids import ACKS_ALL, TopicId
from strandline.records import encode_values
from strandline.security.rights import (
    ALTER_CLUSTER,
    ALTER_CLUSTER_CONFIGS,
    ALTER_GROUP_CONFIGS,
    ALTER_TOPIC,
    ALTER_TOPIC_CONFIGS,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DELETE_GROUP,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_GROUP,
    DESCRIBE_GROUP_CONFIGS,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    IDEMPOTENT_WRITE,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
)
from tests.integration.security.support.cases import GROUP, TOPIC, Case

NO_MEMBER: Final = "unknown"
NO_TOPIC: Final = TopicId("a" * 32)
MISSING: Final = TOPIC + "-missing"
SET: Final = 0
TIMEOUT_MS: Final = 1_000
TOPIC_RESOURCE: Final = Resource(TOPIC_KIND, TOPIC)
BROKER_RESOURCE: Final = Resource(BROKER, "1")
GROUP_RESOURCE: Final = Resource(GROUP_KIND, GROUP)


def of_topic(*partitions: Any, name: str = TOPIC) -> Topics[Any]:
    return (OfTopic(name, partitions),)


JOIN: Final = JoinGroupRequest(GROUP, 10_000, 10_000, NO_MEMBER, "consumer", (OfferedProtocol("range", b""),))
NEW_TOPIC: Final = CreateTopicsRequest((WantedTopic(MISSING, 1, 1),), TIMEOUT_MS, validate_only=True)
LEAVE: Final = LeaveGroupRequest(GROUP, (MemberThatLeaves(NO_MEMBER),))

KAFKA_CASES: Final = (
    Case(
        apis.PRODUCE,
        ProduceRequest(
            ACKS_ALL, TIMEOUT_MS, of_topic(PartitionRecords(0, memoryview(encode_values([b"v"], 0))))
        ),
        (WRITE_TOPIC,),
    ),
    Case(
        apis.FETCH, FetchRequest(0, 0, 1_000, 0, of_topic(PartitionPosition(0, -1, 0, 1_000))), (READ_TOPIC,)
    ),
    Case(apis.LIST_OFFSETS, ListOffsetsRequest(of_topic(PartitionTime(0, -1, -1))), (DESCRIBE_TOPIC,)),
    Case(
        apis.OFFSET_FOR_LEADER_EPOCH, EpochEndsRequest(of_topic(PartitionEpoch(0, -1, 0))), (DESCRIBE_TOPIC,)
    ),
    Case(apis.METADATA, MetadataRequest((TopicWanted(TOPIC),)), (DESCRIBE_TOPIC,)),
    Case(
        apis.METADATA,
        MetadataRequest(None),
        (DESCRIBE_TOPIC,),
        lambda answer: all(topic.name != TOPIC for topic in answer.topics),
        "of all topics",
    ),
    Case(
        apis.METADATA,
        MetadataRequest((TopicWanted(MISSING),), auto_create=False),
        (DESCRIBE_TOPIC,),
        label="of a topic that does not exist",
        topic=MISSING,
    ),
    Case(apis.INIT_PRODUCER_ID, InitProducerIdRequest(None), (IDEMPOTENT_WRITE,)),
    Case(apis.INIT_PRODUCER_ID, InitProducerIdRequest(None), (WRITE_TOPIC,), label="by a topic"),
    Case(apis.DESCRIBE_CLUSTER, DescribeClusterRequest(fenced=True), (DESCRIBE_CLUSTER,)),
    Case(apis.UNREGISTER_BROKER, UnregisterBrokerRequest(77), (ALTER_CLUSTER,)),
    Case(apis.LIST_CONFIG_RESOURCES, ListResourcesRequest(()), (DESCRIBE_CLUSTER_CONFIGS,)),
    Case(apis.DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitionsRequest((TOPIC,), 1), (DESCRIBE_TOPIC,)),
    Case(
        apis.DESCRIBE_TOPIC_PARTITIONS,
        DescribeTopicPartitionsRequest((), 1),
        (DESCRIBE_TOPIC,),
        lambda answer: not answer.topics,
        "of all topics",
    ),
    Case(apis.FIND_COORDINATOR, FindCoordinatorRequest((GROUP,)), (DESCRIBE_GROUP,)),
    Case(apis.JOIN_GROUP, JOIN, (READ_GROUP,)),
    Case(
        apis.SYNC_GROUP,
        SyncGroupRequest(GROUP, 1, NO_MEMBER, (), protocol_type="consumer", protocol="range"),
        (READ_GROUP,),
    ),
    Case(apis.HEARTBEAT, HeartbeatRequest(GROUP, 1, NO_MEMBER), (READ_GROUP,)),
    Case(
        apis.CONSUMER_GROUP_HEARTBEAT,
        ConsumerHeartbeatRequest(GROUP, "m", 1, topics=(TOPIC,)),
        (READ_GROUP, DESCRIBE_TOPIC),
    ),
    Case(apis.CONSUMER_GROUP_DESCRIBE, ConsumerDescribeRequest((GROUP,)), (DESCRIBE_GROUP,)),
    Case(apis.LEAVE_GROUP, LEAVE, (READ_GROUP,)),
    Case(apis.LEAVE_GROUP, LEAVE, (DELETE_GROUP,), label="of others"),
    Case(
        apis.OFFSET_COMMIT,
        OffsetCommitRequest(GROUP, -1, "", of_topic(OffsetToCommit(0, 0, -1, None))),
        (READ_GROUP, READ_TOPIC),
    ),
    Case(
        apis.OFFSET_FETCH,
        OffsetFetchRequest((GroupWanted(GROUP, of_topic(0)),)),
        (DESCRIBE_GROUP, DESCRIBE_TOPIC),
    ),
    Case(
        apis.OFFSET_FETCH,
        OffsetFetchRequest((GroupWanted(GROUP, None),)),
        (DESCRIBE_GROUP, DESCRIBE_TOPIC),
        lambda answer: not any(group.topics for group in answer.groups),
        "of all partitions",
    ),
    Case(
        apis.OFFSET_COMMIT,
        OffsetCommitRequest(GROUP, -1, "", (OfTopic("", (OffsetToCommit(0, 0, -1, None),), NO_TOPIC),)),
        (READ_GROUP,),
        label="by an unknown id",
    ),
    Case(
        apis.OFFSET_FETCH,
        OffsetFetchRequest((GroupWanted(GROUP, (OfTopic("", (0,), NO_TOPIC),)),)),
        (DESCRIBE_GROUP,),
        label="by an unknown id",
    ),
    Case(apis.OFFSET_DELETE, OffsetDeleteRequest(GROUP, of_topic(0)), (DELETE_GROUP, READ_TOPIC)),
    Case(apis.LIST_GROUPS, ListGroupsRequest(()), (DESCRIBE_GROUP,), lambda answer: not answer.groups),
    Case(
        apis.LIST_GROUPS,
        ListGroupsRequest(()),
        (DESCRIBE_CLUSTER,),
        lambda answer: not answer.groups,
        "of the cluster",
    ),
    Case(apis.DESCRIBE_GROUPS, DescribeGroupsRequest((GROUP,)), (DESCRIBE_GROUP,)),
    Case(apis.DELETE_GROUPS, DeleteGroupsRequest((GROUP,)), (DELETE_GROUP,)),
    Case(apis.CREATE_TOPICS, NEW_TOPIC, (CREATE_CLUSTER, DESCRIBE_TOPIC_CONFIGS), topic=MISSING),
    Case(
        apis.CREATE_TOPICS,
        CreateTopicsRequest((WantedTopic(TOPIC, 1, 1),), TIMEOUT_MS, validate_only=True),
        (CREATE_TOPIC,),
        label="of one name",
    ),
    Case(
        apis.DELETE_TOPICS,
        DeleteTopicsRequest((UnwantedTopic(MISSING),), TIMEOUT_MS),
        (DELETE_TOPIC,),
        topic=MISSING,
    ),
    Case(
        apis.CREATE_PARTITIONS,
        CreatePartitionsRequest((TopicGrowth(TOPIC, 2),), TIMEOUT_MS, True),
        (ALTER_TOPIC,),
    ),
    Case(
        apis.DESCRIBE_CONFIGS,
        DescribeConfigsRequest((WantedConfigs(TOPIC_RESOURCE, None),)),
        (DESCRIBE_TOPIC_CONFIGS,),
    ),
    Case(
        apis.DESCRIBE_CONFIGS,
        DescribeConfigsRequest((WantedConfigs(BROKER_RESOURCE, None),)),
        (DESCRIBE_CLUSTER_CONFIGS,),
        label="of a broker",
    ),
    Case(
        apis.DESCRIBE_CONFIGS,
        DescribeConfigsRequest((WantedConfigs(GROUP_RESOURCE, None),)),
        (DESCRIBE_GROUP_CONFIGS,),
        label="of a group",
    ),
    Case(
        apis.ALTER_CONFIGS,
        AlterConfigsRequest((ResourceConfigs(TOPIC_RESOURCE, (GivenConfig("retention.ms", "1000"),)),), True),
        (ALTER_TOPIC_CONFIGS,),
    ),
    Case(
        apis.ALTER_CONFIGS,
        AlterConfigsRequest((ResourceConfigs(BROKER_RESOURCE, ()),), True),
        (ALTER_CLUSTER_CONFIGS,),
        label="of a broker",
    ),
    Case(
        apis.ALTER_CONFIGS,
        AlterConfigsRequest((ResourceConfigs(GROUP_RESOURCE, ()),), True),
        (ALTER_GROUP_CONFIGS,),
        label="of a group",
    ),
    Case(
        apis.INCREMENTAL_ALTER_CONFIGS,
        IncrementalAlterConfigsRequest(
            (ResourceChanges(TOPIC_RESOURCE, (ConfigChange("retention.ms", SET, "1000"),)),), True
        ),
        (ALTER_TOPIC_CONFIGS,),
    ),
    Case(
        apis.DELETE_RECORDS,
        DeleteRecordsRequest(of_topic(PartitionDeletion(0, 0)), TIMEOUT_MS),
        (DELETE_TOPIC,),
    ),
    Case(apis.DESCRIBE_PRODUCERS, DescribeProducersRequest(of_topic(0)), (READ_TOPIC,)),
    Case(apis.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(None), (DESCRIBE_CLUSTER,)),
    Case(apis.ELECT_LEADERS, ElectLeadersRequest(of_topic(0), TIMEOUT_MS), (ALTER_CLUSTER,)),
    Case(
        apis.ALTER_PARTITION_REASSIGNMENTS,
        ReassignRequest(TIMEOUT_MS, of_topic(PartitionTarget(0, None))),
        (ALTER_CLUSTER,),
    ),
    Case(apis.LIST_PARTITION_REASSIGNMENTS, ListReassignmentsRequest(TIMEOUT_MS, None), (DESCRIBE_CLUSTER,)),
    Case(apis.DESCRIBE_CLIENT_QUOTAS, DescribeQuotasRequest((), strict=False), (DESCRIBE_CLUSTER_CONFIGS,)),
    Case(
        apis.ALTER_CLIENT_QUOTAS,
        AlterQuotasRequest((AlteredQuotas((EntityPart("user", "nobody"),), ()),), validate_only=True),
        (ALTER_CLUSTER_CONFIGS,),
    ),
    Case(apis.DESCRIBE_USERS, DescribeUsersRequest(), (DESCRIBE_CLUSTER,)),
    Case(apis.ALTER_USERS, AlterUsersRequest((Deletion("nobody", 1),), ()), (ALTER_CLUSTER,)),
)
