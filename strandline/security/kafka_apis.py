"""The rights that each API of Kafka's protocol needs, as in Kafka. A broker serves no API without a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strandline.security.rights import (
    ALTER_CLUSTER,
    ALTER_CLUSTER_CONFIGS,
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
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    IDEMPOTENT_WRITE,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
)
from strandline.security.rows import NOTHING, Row, by_handler

_EACH_TOPIC: Final = "29 for the topic"
_EACH_PARTITION: Final = "29 for the partition"
_OF_MEMBER: Final = by_handler(
    READ_GROUP, needs="READ GROUP, and be the principal that joined as the member", refused="30"
)
_ALTER_CONFIGS: Final = by_handler(
    ALTER_TOPIC_CONFIGS,
    ALTER_CLUSTER_CONFIGS,
    ALTER_CLUSTER,
    needs="ALTER_CONFIGS TOPIC for each topic, and for an internal one ALTER CLUSTER as well; "
    "ALTER_CONFIGS CLUSTER for a broker",
    refused="29 or 31 for the resource",
)

KAFKA_APIS: Final[Mapping[str, Row]] = {
    "ApiVersions": NOTHING,
    "SaslHandshake": NOTHING,
    "SaslAuthenticate": NOTHING,
    "Produce": by_handler(
        WRITE_TOPIC,
        CLUSTER_ACTION,
        needs="WRITE TOPIC for each partition; CLUSTER_ACTION CLUSTER for internal topics",
        refused=_EACH_PARTITION,
    ),
    "Fetch": by_handler(READ_TOPIC, needs="READ TOPIC for each partition", refused=_EACH_PARTITION),
    "ListOffsets": by_handler(
        DESCRIBE_TOPIC, needs="DESCRIBE TOPIC for each partition", refused=_EACH_PARTITION
    ),
    "OffsetForLeaderEpoch": by_handler(
        DESCRIBE_TOPIC, needs="DESCRIBE TOPIC for each partition", refused=_EACH_PARTITION
    ),
    "Metadata": by_handler(
        DESCRIBE_TOPIC,
        CREATE_CLUSTER,
        CREATE_TOPIC,
        needs="DESCRIBE TOPIC for each topic; to create one on demand, CREATE CLUSTER or CREATE TOPIC",
        refused="29 for a topic that the request names, whether it exists or not; others are left out",
    ),
    "InitProducerId": by_handler(
        IDEMPOTENT_WRITE,
        WRITE_TOPIC,
        needs="WRITE TOPIC on any topic, or IDEMPOTENT_WRITE CLUSTER",
        refused="31",
    ),
    "FindCoordinator": by_handler(DESCRIBE_GROUP, needs="DESCRIBE GROUP for each group", refused="30"),
    "JoinGroup": _OF_MEMBER,
    "SyncGroup": _OF_MEMBER,
    "Heartbeat": _OF_MEMBER,
    "LeaveGroup": by_handler(
        READ_GROUP,
        DELETE_GROUP,
        needs="READ GROUP, and be the principal that joined as the member, or have DELETE GROUP",
        refused="30, or 30 for the member",
    ),
    "OffsetCommit": by_handler(
        READ_GROUP,
        READ_TOPIC,
        needs="READ GROUP, and be the principal that joined as the member; READ TOPIC for each partition",
        refused="30; 29 for the partition",
    ),
    "OffsetFetch": by_handler(
        DESCRIBE_GROUP,
        DESCRIBE_TOPIC,
        needs="DESCRIBE GROUP; DESCRIBE TOPIC for each partition",
        refused="30; 29 for a partition that the request names; others are left out",
    ),
    "OffsetDelete": by_handler(
        DELETE_GROUP,
        READ_TOPIC,
        needs="DELETE GROUP; READ TOPIC for each partition",
        refused="30; 29 for the partition",
    ),
    "ListGroups": by_handler(
        DESCRIBE_CLUSTER,
        DESCRIBE_GROUP,
        needs="DESCRIBE CLUSTER, or DESCRIBE GROUP for each group",
        refused="groups are left out",
    ),
    "DescribeGroups": by_handler(DESCRIBE_GROUP, needs="DESCRIBE GROUP for each group", refused="30"),
    "DeleteGroups": by_handler(DELETE_GROUP, needs="DELETE GROUP for each group", refused="30"),
    "CreateTopics": by_handler(
        CREATE_CLUSTER,
        CREATE_TOPIC,
        DESCRIBE_TOPIC_CONFIGS,
        needs="CREATE CLUSTER, or CREATE TOPIC for each topic; DESCRIBE_CONFIGS TOPIC to see its configs",
        refused=_EACH_TOPIC + "; configs are left out",
    ),
    "DeleteTopics": by_handler(DELETE_TOPIC, needs="DELETE TOPIC for each topic", refused=_EACH_TOPIC),
    "CreatePartitions": by_handler(
        ALTER_TOPIC,
        ALTER_CLUSTER,
        needs="ALTER TOPIC for each topic; for an internal one ALTER CLUSTER as well",
        refused=_EACH_TOPIC,
    ),
    "DescribeConfigs": by_handler(
        DESCRIBE_TOPIC_CONFIGS,
        DESCRIBE_CLUSTER_CONFIGS,
        needs="DESCRIBE_CONFIGS TOPIC for each topic; DESCRIBE_CONFIGS CLUSTER for a broker",
        refused="29 or 31 for the resource",
    ),
    "AlterConfigs": _ALTER_CONFIGS,
    "IncrementalAlterConfigs": _ALTER_CONFIGS,
    "DescribeAcls": by_handler(DESCRIBE_CLUSTER, needs="DESCRIBE CLUSTER", refused="31"),
    "CreateAcls": by_handler(ALTER_CLUSTER, needs="ALTER CLUSTER", refused="31 for each ACL"),
    "DeleteAcls": by_handler(ALTER_CLUSTER, needs="ALTER CLUSTER", refused="31 for each filter"),
    "DescribeClientQuotas": by_handler(
        DESCRIBE_CLUSTER_CONFIGS, needs="DESCRIBE_CONFIGS CLUSTER", refused="31"
    ),
    "AlterClientQuotas": by_handler(
        ALTER_CLUSTER_CONFIGS, needs="ALTER_CONFIGS CLUSTER", refused="31 for each entity"
    ),
    "DeleteRecords": by_handler(
        DELETE_TOPIC, needs="DELETE TOPIC for each partition", refused=_EACH_PARTITION
    ),
    "DescribeProducers": by_handler(
        READ_TOPIC, needs="READ TOPIC for each partition", refused=_EACH_PARTITION
    ),
    "DescribeLogDirs": by_handler(DESCRIBE_CLUSTER, needs="DESCRIBE CLUSTER", refused="31"),
    "ElectLeaders": by_handler(ALTER_CLUSTER, needs="ALTER CLUSTER", refused="31"),
    "AlterPartitionReassignments": by_handler(ALTER_CLUSTER, needs="ALTER CLUSTER", refused="31"),
    "ListPartitionReassignments": by_handler(DESCRIBE_CLUSTER, needs="DESCRIBE CLUSTER", refused="31"),
    "DescribeUserScramCredentials": by_handler(DESCRIBE_CLUSTER, needs="DESCRIBE CLUSTER", refused="31"),
    "AlterUserScramCredentials": by_handler(ALTER_CLUSTER, needs="ALTER CLUSTER", refused="31 for each user"),
    "DescribeCluster": NOTHING,
}
"""By the API's name."""
