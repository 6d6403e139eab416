"""The cases of the RPCs with one request and one answer, or a stream with one of each."""

from __future__ import annotations

from typing import Final

from strandline.adapters.codecs import acls, admin, group_configs, groups, log, quotas, users
from strandline.adapters.codecs.consumer_groups import CONSUMER_HEARTBEAT
from strandline.ids import BrokerId, TopicPartition
from strandline.records import encode_values
from strandline.security.acls import AclFilter
from strandline.security.quotas.model import QuotaFilter
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
from strandline.vocabulary.admin import (
    AlterClientQuotas,
    AlterTopic,
    BalanceAction,
    CheckBroker,
    CreateTopics,
    DeleteTopics,
    DrainBroker,
    ElectUnclean,
    ForgetBroker,
    NewTopic,
    Reassign,
    StartBalance,
    StateChangesQuery,
)
from strandline.vocabulary.configs.groups import AlterGroupConfigs, GroupConfigAlteration
from strandline.vocabulary.groups import (
    CommittedOffset,
    ConsumerHeartbeat,
    GroupProtocol,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    OffsetFetch,
    ReportOwnership,
    ReportTasks,
    SyncGroup,
)
from strandline.vocabulary.log import (
    LATEST,
    EpochQuery,
    FetchPartition,
    FetchRequest,
    MetadataQuery,
    OffsetQuery,
    ProduceEntry,
    ReplicasQuery,
)
from tests.integration.security.support.cases import GROUP, TOPIC, Case

NAME: Final = TopicPartition(TOPIC, 0)
NO_MEMBER: Final = "unknown"
JOIN: Final = JoinGroup(GROUP, NO_MEMBER, 10_000, 10_000, "consumer", (GroupProtocol("range", b""),))

STREAMS: Final = (
    Case(log.PRODUCE, [ProduceEntry(NAME, encode_values([b"v"], 0))], (WRITE_TOPIC,)),
    Case(log.FETCH, FetchRequest(1, 0, 0, 1_000, [FetchPartition(NAME, 0, -1, 1_000)]), (READ_TOPIC,)),
    Case(admin.STATE_CHANGES, StateChangesQuery(), (DESCRIBE_CLUSTER,)),
)

CALLS: Final = (
    Case(log.LIST_OFFSETS, [OffsetQuery(NAME, LATEST)], (DESCRIBE_TOPIC,)),
    Case(log.EPOCH_ENDS, [EpochQuery(NAME, 0)], (DESCRIBE_TOPIC,)),
    Case(log.DESCRIBE_REPLICAS, [ReplicasQuery(NAME)], (DESCRIBE_TOPIC,)),
    Case(log.METADATA, MetadataQuery([TOPIC], include_config=False), (DESCRIBE_TOPIC,)),
    Case(
        log.METADATA,
        MetadataQuery([]),
        (DESCRIBE_TOPIC_CONFIGS, DESCRIBE_TOPIC),
        lambda answer: not any(each.config for each in answer.cluster.topics if each.name == TOPIC),
        "of all topics, with configs",
    ),
    Case(log.PARTITION_COUNTS, [TOPIC], (DESCRIBE_TOPIC,)),
    Case(log.PARTITION_COUNTS, [], (DESCRIBE_TOPIC,), lambda counts: TOPIC not in counts, "of all topics"),
    Case(log.INIT_PRODUCER_ID, None, (IDEMPOTENT_WRITE,)),
    Case(log.INIT_PRODUCER_ID, None, (WRITE_TOPIC,), label="by a topic"),
    Case(groups.FIND_COORDINATOR, GROUP, (DESCRIBE_GROUP,)),
    Case(groups.JOIN_GROUP, JOIN, (READ_GROUP,)),
    Case(groups.SYNC_GROUP, SyncGroup(GROUP, NO_MEMBER, 1, "consumer", "range"), (READ_GROUP,)),
    Case(groups.HEARTBEAT, Heartbeat(GROUP, NO_MEMBER, 1), (READ_GROUP,)),
    Case(
        CONSUMER_HEARTBEAT,
        ConsumerHeartbeat(GROUP, "m", 1, topics=(TOPIC,)),
        (READ_GROUP, DESCRIBE_TOPIC),
    ),
    Case(groups.LEAVE_GROUP, LeaveGroup(GROUP, (LeavingMember(NO_MEMBER),)), (READ_GROUP,)),
    Case(
        groups.LEAVE_GROUP, LeaveGroup(GROUP, (LeavingMember(NO_MEMBER),)), (DELETE_GROUP,), label="of others"
    ),
    Case(
        groups.OFFSET_COMMIT,
        OffsetCommit(GROUP, "", -1, {NAME: CommittedOffset(0)}),
        (READ_GROUP, READ_TOPIC),
    ),
    Case(groups.OFFSET_FETCH, OffsetFetch(GROUP, (NAME,)), (DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    Case(
        groups.OFFSET_FETCH,
        OffsetFetch(GROUP),
        (DESCRIBE_GROUP, DESCRIBE_TOPIC),
        lambda offsets: NAME not in offsets,
        "of all partitions",
    ),
    Case(groups.REPORT_OWNERSHIP, ReportOwnership(GROUP, NO_MEMBER, 1, ()), (READ_GROUP,)),
    Case(groups.REPORT_TASKS, ReportTasks(GROUP, NO_MEMBER, 1, ()), (READ_GROUP,)),
    Case(groups.LIST_GROUPS, None, (DESCRIBE_GROUP,), lambda listed: not listed),
    Case(groups.LIST_GROUPS, None, (DESCRIBE_CLUSTER,), lambda listed: not listed, "of the cluster"),
    Case(groups.DESCRIBE_GROUP, GROUP, (DESCRIBE_GROUP,)),
    Case(admin.CREATE_TOPICS, CreateTopics([NewTopic(TOPIC)], True), (CREATE_TOPIC,)),
    Case(admin.CREATE_TOPICS, CreateTopics([NewTopic(TOPIC)], True), (CREATE_CLUSTER,), label="of any name"),
    Case(admin.DELETE_TOPICS, DeleteTopics([TOPIC], ["another"]), (DELETE_TOPIC,)),
    Case(
        admin.ALTER_TOPIC,
        AlterTopic(TOPIC, {"retention.ms": "1000"}, validate_only=True),
        (ALTER_TOPIC_CONFIGS,),
    ),
    Case(
        admin.ALTER_TOPIC,
        AlterTopic(TOPIC, partitions=2, validate_only=True),
        (ALTER_TOPIC,),
        label="partitions",
    ),
    Case(admin.REASSIGN, Reassign([], validate_only=True), (ALTER_CLUSTER,)),
    Case(admin.LIST_REASSIGNMENTS, None, (DESCRIBE_CLUSTER,)),
    Case(admin.ELECT_PREFERRED, [NAME], (ALTER_CLUSTER,)),
    Case(admin.ELECT_UNCLEAN, ElectUnclean([NAME], validate_only=True), (ALTER_CLUSTER,)),
    Case(admin.DRAIN_BROKER, DrainBroker(BrokerId(99)), (ALTER_CLUSTER,)),
    Case(admin.FORGET_BROKER, ForgetBroker(BrokerId(99)), (ALTER_CLUSTER,)),
    Case(admin.BALANCE, StartBalance(validate_only=True), (ALTER_CLUSTER,)),
    Case(admin.DESCRIBE_BALANCE, None, (DESCRIBE_CLUSTER,)),
    Case(admin.ALTER_BALANCE, BalanceAction.PAUSE, (ALTER_CLUSTER,)),
    Case(admin.CHECK_BROKER, CheckBroker(1), (DESCRIBE_CLUSTER,)),
    Case(admin.CHECK_BROKER, CheckBroker(1, end_drain=True), (ALTER_CLUSTER,), label="that ends a drain"),
    Case(admin.DESCRIBE_CLUSTER, None, (DESCRIBE_CLUSTER,)),
    Case(acls.CREATE_ACLS, [], (ALTER_CLUSTER,)),
    Case(acls.DELETE_ACLS, [], (ALTER_CLUSTER,)),
    Case(acls.DESCRIBE_ACLS, AclFilter(), (DESCRIBE_CLUSTER,)),
    Case(users.ALTER_USERS, [], (ALTER_CLUSTER,)),
    Case(users.DESCRIBE_USERS, [], (DESCRIBE_CLUSTER,)),
    Case(quotas.ALTER_CLIENT_QUOTAS, AlterClientQuotas(()), (ALTER_CLUSTER_CONFIGS,)),
    Case(quotas.DESCRIBE_CLIENT_QUOTAS, QuotaFilter(), (DESCRIBE_CLUSTER_CONFIGS,)),
    Case(
        group_configs.ALTER_GROUP_CONFIGS,
        AlterGroupConfigs((GroupConfigAlteration(GROUP),), validate_only=True),
        (ALTER_GROUP_CONFIGS,),
    ),
    Case(group_configs.DESCRIBE_GROUP_CONFIGS, [GROUP], (DESCRIBE_GROUP_CONFIGS,)),
    Case(groups.DELETE_GROUP, GROUP, (DELETE_GROUP,)),
)
