"""The versions of each API that are served, and the functions that read and write their messages.

A version is served only if every one between the first and the last is. Some ends have a reason of their own:

* Produce begins at 0 although versions below 3 are refused: librdkafka before 2.11.1 does not compress for a
  broker whose Produce begins later. FindCoordinator begins at 0 for its consumers.
* SaslHandshake begins at 1: after version 0 the messages of a login would come without headers.
* Fetch ends at 12, since 13 names topics by their ids.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from strandline.broker.kafka.wire import coordinator, fetch, metadata, offsets, produce, producer_id, sasl
from strandline.broker.kafka.wire.admin import (
    acls,
    cluster,
    configs,
    placement,
    quotas,
    replicas,
    topic_changes,
    users,
)
from strandline.broker.kafka.wire.fields import Reader, Steps, Writer
from strandline.broker.kafka.wire.groups import administration, membership
from strandline.broker.kafka.wire.groups import offsets as group_offsets

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class ApiWire(Generic[Request, Answer]):
    """One API: its versions, both ends included, and how bytes become values and back."""

    key: int
    name: str
    first: int
    last: int
    flexible_since: int
    read: Callable[[Reader, int], Request]
    """Reads the whole request of a version, but the tags at its end: the router skips those. Raises
    MalformedRequest."""
    write: Callable[[Writer, Answer, int], Steps | None]
    """Writes an answer in a version: at once, or in steps if it may be large."""


NEVER: Final = 2**15
"""As the first flexible version: none of those that are served."""


PRODUCE: Final = ApiWire(0, "Produce", 0, 10, 9, produce.read_request, produce.write_answer)
FETCH: Final = ApiWire(1, "Fetch", 4, 12, 12, fetch.read_request, fetch.write_answer)
LIST_OFFSETS: Final = ApiWire(
    2, "ListOffsets", 1, 7, 6, offsets.read_list_offsets, offsets.write_list_offsets
)
METADATA: Final = ApiWire(3, "Metadata", 0, 12, 9, metadata.read_request, metadata.write_answer)
FIND_COORDINATOR: Final = ApiWire(
    10, "FindCoordinator", 0, 4, 3, coordinator.read_request, coordinator.write_answer
)
INIT_PRODUCER_ID: Final = ApiWire(
    22, "InitProducerId", 0, 4, 2, producer_id.read_request, producer_id.write_answer
)
OFFSET_FOR_LEADER_EPOCH: Final = ApiWire(
    23, "OffsetForLeaderEpoch", 2, 4, 4, offsets.read_epoch_ends, offsets.write_epoch_ends
)

# --- logins -----------------------------------------------------------------------------------

SASL_HANDSHAKE: Final = ApiWire(17, "SaslHandshake", 0, 1, NEVER, sasl.read_handshake, sasl.write_handshake)
SASL_AUTHENTICATE: Final = ApiWire(
    36, "SaslAuthenticate", 0, 2, 2, sasl.read_authenticate, sasl.write_authenticate
)

# --- groups -----------------------------------------------------------------------------------

OFFSET_COMMIT: Final = ApiWire(
    8, "OffsetCommit", 2, 8, 8, group_offsets.read_commit, group_offsets.write_commit
)
OFFSET_FETCH: Final = ApiWire(9, "OffsetFetch", 1, 8, 6, group_offsets.read_fetch, group_offsets.write_fetch)
JOIN_GROUP: Final = ApiWire(11, "JoinGroup", 0, 9, 6, membership.read_join, membership.write_join)
HEARTBEAT: Final = ApiWire(12, "Heartbeat", 0, 4, 4, membership.read_heartbeat, membership.write_heartbeat)
LEAVE_GROUP: Final = ApiWire(13, "LeaveGroup", 0, 5, 4, membership.read_leave, membership.write_leave)
SYNC_GROUP: Final = ApiWire(14, "SyncGroup", 0, 5, 4, membership.read_sync, membership.write_sync)
DESCRIBE_GROUPS: Final = ApiWire(
    15, "DescribeGroups", 0, 5, 5, administration.read_describe, administration.write_describe
)
LIST_GROUPS: Final = ApiWire(16, "ListGroups", 0, 5, 3, administration.read_list, administration.write_list)
DELETE_GROUPS: Final = ApiWire(
    42, "DeleteGroups", 0, 2, 2, administration.read_delete, administration.write_delete
)
OFFSET_DELETE: Final = ApiWire(
    47, "OffsetDelete", 0, 0, NEVER, group_offsets.read_delete, group_offsets.write_delete
)

# --- admin ------------------------------------------------------------------------------------

CREATE_TOPICS: Final = ApiWire(
    19, "CreateTopics", 0, 7, 5, topic_changes.read_create_topics, topic_changes.write_create_topics
)
DELETE_TOPICS: Final = ApiWire(
    20, "DeleteTopics", 0, 6, 4, topic_changes.read_delete_topics, topic_changes.write_delete_topics
)
CREATE_PARTITIONS: Final = ApiWire(
    37,
    "CreatePartitions",
    0,
    3,
    2,
    topic_changes.read_create_partitions,
    topic_changes.write_create_partitions,
)
DESCRIBE_ACLS: Final = ApiWire(29, "DescribeAcls", 1, 3, 2, acls.read_describe, acls.write_describe)
CREATE_ACLS: Final = ApiWire(30, "CreateAcls", 1, 3, 2, acls.read_create, acls.write_create)
DELETE_ACLS: Final = ApiWire(31, "DeleteAcls", 1, 3, 2, acls.read_delete, acls.write_delete)
DESCRIBE_CONFIGS: Final = ApiWire(
    32, "DescribeConfigs", 1, 4, 4, configs.read_describe, configs.write_describe
)
ALTER_CONFIGS: Final = ApiWire(33, "AlterConfigs", 0, 2, 2, configs.read_alter, configs.write_alter)
INCREMENTAL_ALTER_CONFIGS: Final = ApiWire(
    44, "IncrementalAlterConfigs", 0, 1, 1, configs.read_incremental_alter, configs.write_alter
)
DESCRIBE_CLIENT_QUOTAS: Final = ApiWire(
    48, "DescribeClientQuotas", 0, 1, 1, quotas.read_describe, quotas.write_describe
)
ALTER_CLIENT_QUOTAS: Final = ApiWire(49, "AlterClientQuotas", 0, 1, 1, quotas.read_alter, quotas.write_alter)
DELETE_RECORDS: Final = ApiWire(
    21, "DeleteRecords", 0, 2, 2, replicas.read_deletions, replicas.write_deletions
)
DESCRIBE_LOG_DIRS: Final = ApiWire(
    35, "DescribeLogDirs", 1, 4, 2, replicas.read_log_dirs, replicas.write_log_dirs
)
ELECT_LEADERS: Final = ApiWire(
    43, "ElectLeaders", 0, 2, 2, placement.read_elections, placement.write_elections
)
ALTER_PARTITION_REASSIGNMENTS: Final = ApiWire(
    45,
    "AlterPartitionReassignments",
    0,
    0,
    0,
    placement.read_reassignments,
    placement.write_reassignments,
)
LIST_PARTITION_REASSIGNMENTS: Final = ApiWire(
    46, "ListPartitionReassignments", 0, 0, 0, placement.read_list, placement.write_list
)
DESCRIBE_USERS: Final = ApiWire(
    50, "DescribeUserScramCredentials", 0, 0, 0, users.read_describe, users.write_describe
)
ALTER_USERS: Final = ApiWire(51, "AlterUserScramCredentials", 0, 0, 0, users.read_alter, users.write_alter)
DESCRIBE_CLUSTER: Final = ApiWire(60, "DescribeCluster", 0, 1, 0, cluster.read_request, cluster.write_answer)
DESCRIBE_PRODUCERS: Final = ApiWire(
    61, "DescribeProducers", 0, 0, 0, replicas.read_producers, replicas.write_producers
)
