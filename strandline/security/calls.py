"""The rights that each call needs, of gRPC and of Kafka's protocol. A process serves no call without a row.

A row that both protocols have is written once: what a caller may do does not depend on how it asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from strandline.security.rights import (
    ALTER_CLUSTER,
    ALTER_CLUSTER_CONFIGS,
    ALTER_GROUP_CONFIGS,
    ALTER_TOPIC,
    ALTER_TOPIC_CONFIGS,
    CLUSTER_ACTION,
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
    DESCRIBE_TRANSACTIONAL_ID,
    IDEMPOTENT_WRITE,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Right,
)
from strandline.security.rows import NOTHING, Decided, Row, before, by_handler


class _Call(NamedTuple):
    """A row, and the calls that need its rights."""

    row: Row
    rpcs: str = ""
    """Names of gRPC, `Service.Call`, with spaces between them."""
    apis: str = ""
    """Names of Kafka's APIs. Their handlers ask for the right, since each answer has its own place for a
    refusal."""


_EACH_TOPIC: Final = "29 for the topic"
_EACH_PARTITION: Final = "29 for the partition"
_OF_MEMBER: Final = by_handler(
    READ_GROUP, needs="READ GROUP, and be the principal that joined as the member", refused="30"
)


def _partitions(right: Right) -> Row:
    return by_handler(right, needs=f"{right} for each partition", refused=_EACH_PARTITION)


def _id(right: Right) -> Row:
    return by_handler(right, needs=str(right), refused="53")


def _groups(right: Right) -> Row:
    return by_handler(right, needs=f"{right} for each group", refused="30")


def _each(row: Row, of: str) -> Row:
    """The row of a Kafka API whose answer has the refusal for each of these."""
    return by_handler(*row.rights, needs=row.needs, refused=f"{row.refused} for each {of}")


_CALLS: Final = (
    # --- records and metadata ------------------------------------------------------------------
    _Call(
        by_handler(
            WRITE_TOPIC,
            CLUSTER_ACTION,
            needs="WRITE TOPIC for each partition; CLUSTER_ACTION CLUSTER for internal topics",
            refused=_EACH_PARTITION,
        ),
        "Log.Produce",
        "Produce",
    ),
    _Call(_partitions(READ_TOPIC), "Log.Fetch", "Fetch DescribeProducers"),
    _Call(
        _partitions(DESCRIBE_TOPIC),
        "Log.ListOffsets Log.EpochEnds Log.DescribeReplicas",
        "ListOffsets OffsetForLeaderEpoch",
    ),
    _Call(
        by_handler(
            DESCRIBE_TOPIC,
            DESCRIBE_TOPIC_CONFIGS,
            needs="DESCRIBE TOPIC for each topic; DESCRIBE_CONFIGS TOPIC for its configs",
            refused="29 for a topic that the request names, whether it exists or not; other topics, and "
            "configs, are left out",
        ),
        "Log.Metadata",
    ),
    _Call(
        by_handler(
            DESCRIBE_TOPIC,
            CREATE_CLUSTER,
            CREATE_TOPIC,
            needs="DESCRIBE TOPIC for each topic; to create one on demand, CREATE CLUSTER or CREATE TOPIC",
            refused="29 for a topic that the request names, whether it exists or not; others are left out",
        ),
        apis="Metadata",
    ),
    _Call(
        by_handler(
            DESCRIBE_TOPIC,
            needs="DESCRIBE TOPIC for each topic",
            refused="29 for topics that the request names; others are left out",
        ),
        "Log.PartitionCounts",
        "DescribeTopicPartitions",
    ),
    _Call(
        by_handler(
            IDEMPOTENT_WRITE,
            WRITE_TOPIC,
            needs="WRITE TOPIC on any topic, or IDEMPOTENT_WRITE CLUSTER",
            refused="31",
        ),
        "Log.InitProducerId",
    ),
    _Call(
        by_handler(
            IDEMPOTENT_WRITE,
            WRITE_TOPIC,
            WRITE_TRANSACTIONAL_ID,
            needs="WRITE TOPIC on any topic, or IDEMPOTENT_WRITE CLUSTER; with a transactional id, "
            "WRITE TRANSACTIONAL_ID instead",
            refused="31; 53",
        ),
        apis="InitProducerId",
    ),
    _Call(_partitions(DELETE_TOPIC), apis="DeleteRecords"),
    # --- members of the cluster ----------------------------------------------------------------
    _Call(
        Row(
            Decided.MEMBERS_ONLY,
            (CLUSTER_ACTION,),
            "be the broker that the first message names, by `broker_principals` or by the members' key",
            "31",
        ),
        "Replication.ReplicaFetch",
    ),
    _Call(
        Row(Decided.MEMBERS_ONLY, (CLUSTER_ACTION,), "be a member of the cluster", "31"),
        "Replication.ReportSilence",
    ),
    # --- groups --------------------------------------------------------------------------------
    _Call(_groups(DESCRIBE_GROUP), "Groups.FindCoordinator Groups.DescribeGroup", "DescribeGroups"),
    _Call(
        by_handler(
            DESCRIBE_GROUP,
            DESCRIBE_TRANSACTIONAL_ID,
            needs="DESCRIBE GROUP for each group; DESCRIBE TRANSACTIONAL_ID for each transactional id",
            refused="30; 53",
        ),
        apis="FindCoordinator",
    ),
    _Call(
        _OF_MEMBER,
        "Groups.JoinGroup Groups.SyncGroup Groups.Heartbeat Groups.ReportOwnership Groups.ReportTasks",
        "JoinGroup SyncGroup Heartbeat",
    ),
    _Call(
        by_handler(
            READ_GROUP,
            DESCRIBE_TOPIC,
            needs="READ GROUP, and be the principal that joined as the member; DESCRIBE TOPIC for each topic "
            "of the subscription",
            refused="30; 29",
        ),
        "Groups.ConsumerGroupHeartbeat",
        "ConsumerGroupHeartbeat",
    ),
    _Call(
        by_handler(
            DESCRIBE_GROUP,
            DESCRIBE_TOPIC,
            needs="DESCRIBE GROUP for each group; DESCRIBE TOPIC for each topic that it reads",
            refused="30; 29 for the group",
        ),
        apis="ConsumerGroupDescribe",
    ),
    _Call(
        by_handler(
            READ_GROUP,
            DELETE_GROUP,
            needs="READ GROUP, and be the principal that joined as the member, or have DELETE GROUP",
            refused="30, or 30 for the member",
        ),
        "Groups.LeaveGroup",
        "LeaveGroup",
    ),
    _Call(
        by_handler(
            READ_GROUP,
            READ_TOPIC,
            needs="READ GROUP, and be the principal that joined as the member; READ TOPIC for each partition",
            refused="30; 29 for the partition",
        ),
        "Groups.OffsetCommit",
        "OffsetCommit",
    ),
    _Call(
        by_handler(
            WRITE_TRANSACTIONAL_ID,
            READ_GROUP,
            READ_TOPIC,
            needs="WRITE TRANSACTIONAL_ID; READ GROUP; READ TOPIC for each partition",
            refused="53; 30; 29 for the partition",
        ),
        "Groups.TxnOffsetCommit",
        "TxnOffsetCommit",
    ),
    _Call(
        by_handler(
            DESCRIBE_GROUP,
            DESCRIBE_TOPIC,
            needs="DESCRIBE GROUP; DESCRIBE TOPIC for each partition",
            refused="30; 29 for a partition that the request names; others are left out",
        ),
        "Groups.OffsetFetch",
        "OffsetFetch",
    ),
    _Call(
        by_handler(
            DELETE_GROUP,
            READ_TOPIC,
            needs="DELETE GROUP; READ TOPIC for each partition",
            refused="30; 29 for the partition",
        ),
        apis="OffsetDelete",
    ),
    _Call(
        by_handler(
            DESCRIBE_CLUSTER,
            DESCRIBE_GROUP,
            needs="DESCRIBE CLUSTER, or DESCRIBE GROUP for each group",
            refused="groups are left out",
        ),
        "Groups.ListGroups",
        "ListGroups",
    ),
    _Call(_groups(DELETE_GROUP), "Groups.DeleteGroup", "DeleteGroups"),
    # --- transactions --------------------------------------------------------------------------
    _Call(_id(DESCRIBE_TRANSACTIONAL_ID), "Transactions.FindTransactionCoordinator"),
    _Call(_id(WRITE_TRANSACTIONAL_ID), "Transactions.InitTransactions Transactions.EndTransaction", "EndTxn"),
    _Call(
        by_handler(
            WRITE_TRANSACTIONAL_ID,
            WRITE_TOPIC,
            CLUSTER_ACTION,
            needs="WRITE TRANSACTIONAL_ID; WRITE TOPIC for each partition; from version 4 on, "
            "CLUSTER_ACTION CLUSTER instead",
            refused="53; 29 for the partition; 31",
        ),
        apis="AddPartitionsToTxn",
    ),
    _Call(
        by_handler(
            WRITE_TRANSACTIONAL_ID,
            READ_GROUP,
            needs="WRITE TRANSACTIONAL_ID; READ GROUP",
            refused="53; 30",
        ),
        apis="AddOffsetsToTxn",
    ),
    _Call(
        by_handler(
            DESCRIBE_TRANSACTIONAL_ID,
            DESCRIBE_TOPIC,
            needs="DESCRIBE TRANSACTIONAL_ID; DESCRIBE TOPIC for each partition in it",
            refused="53; partitions are left out",
        ),
        "Transactions.DescribeTransaction",
        "DescribeTransactions",
    ),
    _Call(
        by_handler(
            DESCRIBE_TRANSACTIONAL_ID,
            needs="DESCRIBE TRANSACTIONAL_ID for each id",
            refused="ids are left out",
        ),
        "Transactions.ListTransactions",
        "ListTransactions",
    ),
    _Call(
        by_handler(ALTER_CLUSTER, needs="ALTER CLUSTER", refused="31"),
        "Transactions.AbortTransaction Transactions.AbortInLog",
    ),
    _Call(
        by_handler(
            ALTER_CLUSTER,
            CLUSTER_ACTION,
            needs="ALTER CLUSTER or CLUSTER_ACTION CLUSTER",
            refused="31 for each partition",
        ),
        apis="WriteTxnMarkers",
    ),
    _Call(_partitions(DESCRIBE_TOPIC), "Transactions.DescribeLogs"),
    _Call(
        Row(
            Decided.MEMBERS_ONLY,
            (CLUSTER_ACTION,),
            "be the broker that the request names, by `broker_principals` or by the members' key",
            "31",
        ),
        "Transactions.WriteMarkers Transactions.AdmitPartitions",
    ),
    # --- topics --------------------------------------------------------------------------------
    _Call(
        by_handler(
            CREATE_CLUSTER,
            CREATE_TOPIC,
            needs="CREATE CLUSTER, or CREATE TOPIC for each topic; only members create internal topics",
            refused=_EACH_TOPIC,
        ),
        "Admin.CreateTopics",
    ),
    _Call(
        by_handler(
            CREATE_CLUSTER,
            CREATE_TOPIC,
            DESCRIBE_TOPIC_CONFIGS,
            needs="CREATE CLUSTER, or CREATE TOPIC for each topic; DESCRIBE_CONFIGS TOPIC to see its configs",
            refused=_EACH_TOPIC + "; configs are left out",
        ),
        apis="CreateTopics",
    ),
    _Call(
        by_handler(DELETE_TOPIC, needs="DELETE TOPIC for each topic", refused=_EACH_TOPIC),
        "Admin.DeleteTopics",
        "DeleteTopics",
    ),
    _Call(
        by_handler(
            ALTER_TOPIC_CONFIGS,
            ALTER_TOPIC,
            ALTER_CLUSTER,
            needs="ALTER_CONFIGS TOPIC for configs, ALTER TOPIC for partitions; "
            "for an internal topic ALTER CLUSTER as well",
            refused="29",
        ),
        "Admin.AlterTopic",
    ),
    _Call(
        by_handler(
            ALTER_TOPIC,
            ALTER_CLUSTER,
            needs="ALTER TOPIC for each topic; for an internal one ALTER CLUSTER as well",
            refused=_EACH_TOPIC,
        ),
        apis="CreatePartitions",
    ),
    _Call(
        by_handler(
            DESCRIBE_TOPIC_CONFIGS,
            DESCRIBE_GROUP_CONFIGS,
            DESCRIBE_CLUSTER_CONFIGS,
            needs="DESCRIBE_CONFIGS TOPIC for each topic, DESCRIBE_CONFIGS GROUP for each group, "
            "DESCRIBE_CONFIGS CLUSTER for a broker",
            refused="29, 30 or 31 for the resource",
        ),
        apis="DescribeConfigs",
    ),
    _Call(
        by_handler(
            ALTER_TOPIC_CONFIGS,
            ALTER_GROUP_CONFIGS,
            ALTER_CLUSTER_CONFIGS,
            ALTER_CLUSTER,
            needs="ALTER_CONFIGS TOPIC for each topic, and for an internal one ALTER CLUSTER as well; "
            "ALTER_CONFIGS GROUP for each group, ALTER_CONFIGS CLUSTER for a broker",
            refused="29, 30 or 31 for the resource",
        ),
        apis="AlterConfigs IncrementalAlterConfigs",
    ),
    # --- the cluster ---------------------------------------------------------------------------
    _Call(
        before(ALTER_CLUSTER),
        "Admin.Reassign Admin.ElectPreferred Admin.ElectUnclean Admin.DrainBroker Admin.ForgetBroker "
        "Admin.Balance Admin.AlterBalance Admin.CreateAcls Admin.DeleteAcls Admin.AlterUserScramCredentials",
        "AlterPartitionReassignments ElectLeaders UnregisterBroker",
    ),
    _Call(
        before(DESCRIBE_CLUSTER),
        "Admin.ListReassignments Admin.DescribeBalance Admin.DescribeCluster Admin.DescribeAcls "
        "Admin.DescribeUserScramCredentials",
        "ListPartitionReassignments DescribeLogDirs DescribeAcls DescribeUserScramCredentials",
    ),
    _Call(before(DESCRIBE_CLUSTER, "asked again before each answer"), "Admin.StateChanges"),
    _Call(
        by_handler(
            DESCRIBE_CLUSTER,
            ALTER_CLUSTER,
            needs="DESCRIBE CLUSTER; ALTER CLUSTER if it may end a drain",
            refused="31",
        ),
        "Admin.CheckBroker",
    ),
    _Call(_each(before(ALTER_CLUSTER), "ACL"), apis="CreateAcls"),
    _Call(_each(before(ALTER_CLUSTER), "filter"), apis="DeleteAcls"),
    _Call(_each(before(ALTER_CLUSTER), "user"), apis="AlterUserScramCredentials"),
    _Call(_groups(ALTER_GROUP_CONFIGS), "Admin.AlterGroupConfigs"),
    _Call(
        by_handler(
            DESCRIBE_GROUP_CONFIGS,
            needs=f"{DESCRIBE_GROUP_CONFIGS} for each group",
            refused="30 for groups that the request names; others are left out",
        ),
        "Admin.DescribeGroupConfigs",
    ),
    _Call(before(ALTER_CLUSTER_CONFIGS), "Admin.AlterClientQuotas"),
    _Call(_each(before(ALTER_CLUSTER_CONFIGS), "entity"), apis="AlterClientQuotas"),
    _Call(
        before(DESCRIBE_CLUSTER_CONFIGS),
        "Admin.DescribeClientQuotas",
        "DescribeClientQuotas ListConfigResources",
    ),
    _Call(
        by_handler(DESCRIBE_CLUSTER, needs="DESCRIBE CLUSTER to see brokers that are down", refused="31"),
        apis="DescribeCluster",
    ),
    _Call(
        NOTHING,
        "Auth.Authenticate",
        "ApiVersions SaslHandshake SaslAuthenticate",
    ),
)

_HEALTH: Final = ("Check", "Watch", "List")

RPCS: Final[Mapping[str, Row]] = {
    **{f"/strandline.v1.{name.replace('.', '/')}": call.row for call in _CALLS for name in call.rpcs.split()},
    **{f"/grpc.health.v1.Health/{name}": NOTHING for name in _HEALTH},
}
"""By path."""
KAFKA_APIS: Final[Mapping[str, Row]] = {name: call.row for call in _CALLS for name in call.apis.split()}
"""By the API's name."""
