"""The rights that each RPC needs. A service does not serve an RPC that has no row here."""

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
from strandline.security.rows import NOTHING, Decided, Row, before, by_handler

_LOG: Final = "/strandline.v1.Log/"
_GROUPS: Final = "/strandline.v1.Groups/"
_ADMIN: Final = "/strandline.v1.Admin/"
_AUTH: Final = "/strandline.v1.Auth/"
_HEALTH: Final = "/grpc.health.v1.Health/"

_OF_MEMBER: Final = by_handler(
    READ_GROUP, needs="READ GROUP, and be the principal that joined as the member", refused="30"
)

RPCS: Final[Mapping[str, Row]] = {
    _LOG + "Produce": by_handler(
        WRITE_TOPIC,
        CLUSTER_ACTION,
        needs="WRITE TOPIC for each entry; CLUSTER_ACTION CLUSTER for internal topics",
        refused="29 for the entry",
    ),
    _LOG + "Fetch": by_handler(
        READ_TOPIC, needs="READ TOPIC for each partition", refused="29 for the partition"
    ),
    _LOG + "ListOffsets": by_handler(
        DESCRIBE_TOPIC, needs="DESCRIBE TOPIC for each partition", refused="29 for the partition"
    ),
    _LOG + "EpochEnds": by_handler(
        DESCRIBE_TOPIC, needs="DESCRIBE TOPIC for each partition", refused="29 for the partition"
    ),
    _LOG + "DescribeReplicas": by_handler(
        DESCRIBE_TOPIC, needs="DESCRIBE TOPIC for each partition", refused="29 for the partition"
    ),
    _LOG + "Metadata": by_handler(
        DESCRIBE_TOPIC,
        DESCRIBE_TOPIC_CONFIGS,
        needs="DESCRIBE TOPIC for each topic; DESCRIBE_CONFIGS TOPIC for its configs",
        refused="29 for a topic that the request names, whether it exists or not; other topics, and "
        "configs, are left out",
    ),
    _LOG + "PartitionCounts": by_handler(
        DESCRIBE_TOPIC,
        needs="DESCRIBE TOPIC for each topic",
        refused="29 for topics that the request names; others are left out",
    ),
    _LOG + "InitProducerId": by_handler(
        IDEMPOTENT_WRITE,
        WRITE_TOPIC,
        needs="WRITE TOPIC on any topic, or IDEMPOTENT_WRITE CLUSTER",
        refused="31",
    ),
    "/strandline.v1.Replication/ReplicaFetch": Row(
        Decided.MEMBERS_ONLY,
        (CLUSTER_ACTION,),
        "be the broker that the first message names, by `broker_principals` or by the members' key",
        "31",
    ),
    "/strandline.v1.Replication/ReportSilence": Row(
        Decided.MEMBERS_ONLY, (CLUSTER_ACTION,), "be a member of the cluster", "31"
    ),
    _GROUPS + "FindCoordinator": by_handler(DESCRIBE_GROUP, needs="DESCRIBE GROUP", refused="30"),
    _GROUPS + "JoinGroup": _OF_MEMBER,
    _GROUPS + "SyncGroup": _OF_MEMBER,
    _GROUPS + "Heartbeat": _OF_MEMBER,
    _GROUPS + "LeaveGroup": by_handler(
        READ_GROUP,
        DELETE_GROUP,
        needs="READ GROUP, and be the principal that joined as the member, or have DELETE GROUP",
        refused="30, or 30 for the member",
    ),
    _GROUPS + "OffsetCommit": by_handler(
        READ_GROUP,
        READ_TOPIC,
        needs="READ GROUP, and be the principal that joined as the member; READ TOPIC for each offset",
        refused="30; 29 for the offset",
    ),
    _GROUPS + "OffsetFetch": by_handler(
        DESCRIBE_GROUP,
        DESCRIBE_TOPIC,
        needs="DESCRIBE GROUP; DESCRIBE TOPIC for each offset",
        refused="30; 29 if the request names the partition; others are left out",
    ),
    _GROUPS + "ReportOwnership": _OF_MEMBER,
    _GROUPS + "ReportTasks": _OF_MEMBER,
    _GROUPS + "ListGroups": by_handler(
        DESCRIBE_CLUSTER,
        DESCRIBE_GROUP,
        needs="DESCRIBE CLUSTER, or DESCRIBE GROUP for each group",
        refused="groups are left out",
    ),
    _GROUPS + "DescribeGroup": by_handler(DESCRIBE_GROUP, needs="DESCRIBE GROUP", refused="30"),
    _GROUPS + "DeleteGroup": by_handler(DELETE_GROUP, needs="DELETE GROUP", refused="30"),
    _ADMIN + "CreateTopics": by_handler(
        CREATE_CLUSTER,
        CREATE_TOPIC,
        needs="CREATE CLUSTER, or CREATE TOPIC for each topic; only members create internal topics",
        refused="29 for the topic",
    ),
    _ADMIN + "DeleteTopics": by_handler(
        DELETE_TOPIC, needs="DELETE TOPIC for each topic", refused="29 for the topic"
    ),
    _ADMIN + "AlterTopic": by_handler(
        ALTER_TOPIC_CONFIGS,
        ALTER_TOPIC,
        ALTER_CLUSTER,
        needs="ALTER_CONFIGS TOPIC for configs, ALTER TOPIC for partitions; "
        "for an internal topic ALTER CLUSTER as well",
        refused="29",
    ),
    _ADMIN + "Reassign": before(ALTER_CLUSTER),
    _ADMIN + "ListReassignments": before(DESCRIBE_CLUSTER),
    _ADMIN + "ElectPreferred": before(ALTER_CLUSTER),
    _ADMIN + "ElectUnclean": before(ALTER_CLUSTER),
    _ADMIN + "DrainBroker": before(ALTER_CLUSTER),
    _ADMIN + "ForgetBroker": before(ALTER_CLUSTER),
    _ADMIN + "Balance": before(ALTER_CLUSTER),
    _ADMIN + "DescribeBalance": before(DESCRIBE_CLUSTER),
    _ADMIN + "AlterBalance": before(ALTER_CLUSTER),
    _ADMIN + "CheckBroker": by_handler(
        DESCRIBE_CLUSTER,
        ALTER_CLUSTER,
        needs="DESCRIBE CLUSTER; ALTER CLUSTER if it may end a drain",
        refused="31",
    ),
    _ADMIN + "DescribeCluster": before(DESCRIBE_CLUSTER),
    _ADMIN + "CreateAcls": before(ALTER_CLUSTER),
    _ADMIN + "DeleteAcls": before(ALTER_CLUSTER),
    _ADMIN + "DescribeAcls": before(DESCRIBE_CLUSTER),
    _ADMIN + "AlterUserScramCredentials": before(ALTER_CLUSTER),
    _ADMIN + "DescribeUserScramCredentials": before(DESCRIBE_CLUSTER),
    _ADMIN + "AlterClientQuotas": before(ALTER_CLUSTER_CONFIGS),
    _ADMIN + "DescribeClientQuotas": before(DESCRIBE_CLUSTER_CONFIGS),
    _ADMIN + "StateChanges": before(DESCRIBE_CLUSTER, "asked again before each answer"),
    _AUTH + "Authenticate": NOTHING,
    _HEALTH + "Check": NOTHING,
    _HEALTH + "Watch": NOTHING,
    _HEALTH + "List": NOTHING,
}
"""By path."""
